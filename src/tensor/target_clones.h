// A function compiled once per instruction set, chosen when the program starts. Its file is built
// with -ffp-contract=off, so that all of them give the same bits; no LibTorch here.
#pragma once

// ThreadSanitizer is not ready yet where the choice is made.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define TUTTI_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TUTTI_CLONES
#endif

/* Descriptors, marks and shared buffers of src/comm, with store buffers explicit.
 *
 * Every rank runs the same K operations. An operation publishes a descriptor (VALUE, then SEQ) and
 * waits for everybody's; one with a second sync also stores into the other ranks' buffers and
 * passes a mark. Kinds of operations are chosen freely, so all mixtures are explored.
 *
 * Stores go through a buffer per rank and reach memory when a flush happens to run. TSO (x86): in
 * order. Without TSO (ARM): in any order, except that a release store leaves only when it is the
 * oldest. Loads of this model are in order: that is what acquire loads promise.
 *
 * Planted faults, each of which must be found: NO_RELEASE (SEQ and MARK are plain stores; found
 * without TSO only), NO_ACQUIRE (SEQ and MARK are plain loads: what they guard may be read before
 * them), ONE_SLOT (no parity), NO_FINAL_SYNC (an operation that stores into peers' buffers returns
 * after arrival).
 *
 *   spin -a arrival.pml && cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 */
#ifndef N
#define N 2
#endif
#ifndef K
#define K 4
#endif
#ifdef ONE_SLOT
#define SLOT(k) 0
#else
#define SLOT(k) ((k) & 1)
#endif
/* A rank's words: SEQ and VALUE of two slots, the mark, and one word of its buffer per other rank */
#define WORDS (5 + N)
#define SEQ(r, k) ((r) * WORDS + SLOT(k) * 2)
#define VALUE(r, k) ((r) * WORDS + SLOT(k) * 2 + 1)
#define MARK(r) ((r) * WORDS + 4)
#define DATA(r, from) ((r) * WORDS + 5 + (from))

#define DEPTH 4
byte memory[N * WORDS];
byte at[N * DEPTH];    /* store buffers, oldest first */
byte what[N * DEPTH];
bool last[N * DEPTH];  /* a release store */
byte used[N];
bool two_syncs[K + 1];
bool chosen = false;

inline store(r, address, value, is_release) {
  atomic {
    used[r] < DEPTH;
    at[r * DEPTH + used[r]] = address;
    what[r * DEPTH + used[r]] = value;
    last[r * DEPTH + used[r]] = is_release;
    used[r] = used[r] + 1;
  }
}

#ifdef NO_RELEASE
#define RELEASE false
#else
#define RELEASE true
#endif

/* Awaits a flag, then reads a word. An acquire load keeps that order; without it the word may have
 * been read before the flag was seen. */
inline see(awaited, word) {
#ifdef NO_ACQUIRE
  if
  :: early = memory[word]; memory[awaited] >= k
  :: memory[awaited] >= k; early = memory[word]
  fi;
  assert(early == k);
  early = 0
#else
  memory[awaited] >= k;
  assert(memory[word] == k)
#endif
}

/* One entry of a buffer reaches memory. Entries to the same word keep their order. */
proctype Flush(byte r) {
  byte i, j;
  bool ok;
end:
  do
  :: atomic {
      used[r] > 0 ->
#ifdef TSO
      i = 0;
#else
      i = 0;
      do
      :: i + 1 < used[r] -> i = i + 1
      :: break
      od;
      ok = !last[r * DEPTH + i] || i == 0;
      j = 0;
      do
      :: j < i ->
        ok = ok && at[r * DEPTH + j] != at[r * DEPTH + i];
        j = j + 1
      :: else -> break
      od;
      if
      :: !ok -> i = 0
      :: else
      fi;
#endif
      memory[at[r * DEPTH + i]] = what[r * DEPTH + i];
      do
      :: i + 1 < used[r] ->
        at[r * DEPTH + i] = at[r * DEPTH + i + 1];
        what[r * DEPTH + i] = what[r * DEPTH + i + 1];
        last[r * DEPTH + i] = last[r * DEPTH + i + 1];
        i = i + 1
      :: else -> break
      od;
      used[r] = used[r] - 1;
      i = 0; j = 0; ok = false
    }
  od
}

proctype Rank(byte r) {
  byte k = 1, q;
#ifdef NO_ACQUIRE
  byte early;
#endif
  chosen;
  do
  :: k <= K ->
    store(r, VALUE(r, k), k, false);
    store(r, SEQ(r, k), k, RELEASE);
    q = 0;
    do
    :: q < N && q != r ->
      /* what is read belongs to this operation, not to one before or after it */
      see(SEQ(q, k), VALUE(q, k));
      q = q + 1
    :: q < N && q == r -> q = q + 1
    :: else -> break
    od;
    if
    :: two_syncs[k] ->
      q = 0;
      do
      :: q < N && q != r -> store(r, DATA(q, r), k, false); q = q + 1
      :: q < N && q == r -> q = q + 1
      :: else -> break
      od;
      store(r, MARK(r), k, RELEASE);
      q = 0;
      do
      :: q < N && q != r ->
        /* the results are there when the operation returns */
#ifdef NO_FINAL_SYNC
        assert(memory[DATA(r, q)] == k);
#else
        see(MARK(q), DATA(r, q));
#endif
        q = q + 1
      :: q < N && q == r -> q = q + 1
      :: else -> break
      od
    :: else
    fi;
    k = k + 1
  :: else -> break
  od
}

init {
  byte i = 1;
  do
  :: i <= K -> if :: two_syncs[i] = true :: two_syncs[i] = false fi; i = i + 1
  :: else -> break
  od;
  atomic {
    i = 0;
    do
    :: i < N -> run Rank(i); run Flush(i); i = i + 1
    :: else -> break
    od;
    i = 0;
    chosen = true
  }
}

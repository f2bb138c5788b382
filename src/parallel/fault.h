// Faults planted on purpose, so that `tutti verify` can prove that it would find them. Never on by
// default; they act only where several ranks share the work, so the one-rank reference stays right.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::parallel {

enum class Fault {
  None,
  SkipBucket,   // the last bucket's gradients are not reduced
  SkipCopies,   // the last bucket's gradients are not reduced over copies of shards
  SwapShard,    // a rank's shard of the first bucket is reduced in the wrong order of elements
  DoubleNorm,   // the clipping norm counts every gradient twice
  LoseTie,      // the embedding's part of the tied gradient is dropped
  TokenCount,   // the loss is divided by this rank's tokens, not by all ranks'
  SkipPartial,  // gradients that are partial over tensor-parallel ranks are not added up
  BiasTwice,    // the gradient of a bias behind a split product counts once per rank
  OneBand,      // a fused QKV is cut as one matrix instead of three
  VocabEdge,    // every part of the vocabulary begins one word late
  OwnLogits,    // cross-entropy is taken over this rank's part of the vocabulary
};

/// From TUTTI_FAULT: "skip_bucket", ...; empty text is None, an unknown one is empty.
std::optional<Fault> fault_from_name(std::string_view name);
std::vector<std::string> fault_names();

}  // namespace tutti::parallel

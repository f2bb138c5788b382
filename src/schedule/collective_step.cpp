// Words for collective_step.h.
#include "schedule/collective_step.h"

#include <fmt/format.h>

namespace tutti::schedule {
namespace {

std::string ranks_of(const Peers& peers) {
  if (peers.count == 1) return fmt::format("{}", peers.first);
  std::string text = fmt::format("ranks {}-{}", peers.first, peers.rank(peers.count - 1));
  if (peers.stride != 1) text += fmt::format(" by {}", peers.stride);
  return text;
}

std::string_view preposition(Verb verb) {
  if (verb == Verb::Send) return "to";
  if (receives(verb)) return "from";
  return verb == Verb::Await ? "of" : "";  // ReduceFrom, StoreTo and CopyFrom say it themselves
}

}  // namespace

std::string_view name(Space space) {
  static constexpr std::string_view kNames[] = {"Data", "Input", "Scratch"};
  return kNames[static_cast<int>(space)];
}

std::string_view name(Verb verb) {
  switch (verb) {
    case Verb::Send:
      return "Send";
    case Verb::Recv:
      return "Recv";
    case Verb::RecvAdd:
      return "RecvAdd";
    case Verb::Publish:
      return "Publish";
    case Verb::Await:
      return "Await";
    case Verb::ReduceFrom:
      return "ReduceFrom";
    case Verb::StoreTo:
      return "StoreTo";
    case Verb::CopyFrom:
      return "CopyFrom";
  }
  return "?";
}

std::string describe(const CollectiveStep& step) {
  if (step.verb == Verb::Publish) return fmt::format("Publish of mark {}", step.mark);
  std::string text{name(step.verb)};
  const std::string_view word = preposition(step.verb);
  text += fmt::format("{}{} {}", word.empty() ? "" : " ", word, ranks_of(step.peers));
  if (step.verb == Verb::Await) return text + fmt::format(", mark {}", step.mark);
  static constexpr std::string_view kPlaces[] = {"", " of Input", " of Scratch"};
  return text + fmt::format("{} of elements [{}, {})", kPlaces[static_cast<int>(step.space)],
                            step.slice.begin, step.slice.end);
}

}  // namespace tutti::schedule

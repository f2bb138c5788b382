// One row per group of equal ranks.
#include "spec/memory_report.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/units.h"

namespace tutti::spec {
namespace {

constexpr int kBar = 60;  // characters of the limit, or of the fullest rank without one

struct Term {
  const char* name;
  char letter;
  Count MemoryTerms::*bytes;
};

constexpr std::array<Term, 8> kTerms = {{{"parameters", 'P', &MemoryTerms::parameters},
                                         {"gradients", 'G', &MemoryTerms::gradients},
                                         {"optimizer", 'O', &MemoryTerms::optimizer},
                                         {"activations", 'A', &MemoryTerms::activations},
                                         {"logits", 'L', &MemoryTerms::logits},
                                         {"buffers", 'B', &MemoryTerms::buffers},
                                         {"slack", 'S', &MemoryTerms::slack},
                                         {"base", '.', &MemoryTerms::base}}};

std::string bytes(Count count) {
  return core::format_bytes(static_cast<std::uint64_t>(count.value()));
}

std::string ranks_of(const RankGroup& group) {
  if (group.first == group.last) return fmt::format("{}", group.first);
  return fmt::format("{}-{}", group.first, group.last);
}

// Cumulative rounding: the bar's length is the total's, whatever the terms round to.
std::string bar(const MemoryTerms& terms, double bytes_per_character) {
  std::string text;
  double sum = 0;
  for (const Term& term : kTerms) {
    sum += (terms.*term.bytes).real();
    const auto end = static_cast<std::size_t>(sum / bytes_per_character + 0.5);
    text.append(end > text.size() ? end - text.size() : 0, term.letter);
  }
  constexpr std::size_t kLongest = 2 * kBar;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string bars(const MemoryReport& report) {
  const double whole = report.limit ? report.limit->real() : fullest(report).terms.total().real();
  std::string text;
  for (const RankGroup& group : report.ranks) {
    std::string line = bar(group.terms, std::max(1.0, whole / kBar));
    if (report.limit) {
      line.resize(std::max<std::size_t>(line.size(), kBar), ' ');
      line.insert(kBar, "|");
    }
    text += fmt::format("{:>12} |{}\n", ranks_of(group), line);
  }
  text += fmt::format(
      "{:>12}  P parameters, G gradients, O optimizer, A activations, L logits, B buffers, "
      "S slack, . base{}\n",
      "", report.limit ? "; | the limit" : "");
  return text;
}

std::string parts(const MemoryTerms& terms) {
  std::vector<std::string> texts;
  for (const Term& term : kTerms) {
    if ((terms.*term.bytes) > 0) {
      texts.push_back(fmt::format("{} {}", term.name, bytes(terms.*term.bytes)));
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string cure_text(const MemoryReport& report) {
  const auto text_of = [](const Cure& cure) {
    return fmt::format("{} ({})", cure.change, bytes(cure.terms.total()));
  };
  if (report.cures.empty() && report.replicas) return text_of(*report.replicas) + " makes it fit.";
  if (report.cures.empty()) {
    return report.may_grow ? "No micro-batch, recompute, ZeRO stage, tp or pp makes it fit: take a "
                             "smaller model "
                             "or sequence, or more memory."
                           : "No setting that a run obeys makes it fit: take a smaller model or "
                             "sequence, fewer "
                             "ranks per host, or more memory.";
  }
  std::string text = "Cheapest first: ";
  for (std::size_t i = 0; i < report.cures.size(); ++i) {
    text += (i == 0 ? "" : ", then ") + text_of(report.cures[i]);
  }
  text += " makes it fit";
  return text + (report.replicas ? "; so does " + text_of(*report.replicas) + "." : ".");
}

}  // namespace

const RankGroup& fullest(const MemoryReport& report) {
  TUTTI_CHECK(!report.ranks.empty());
  return *std::max_element(
      report.ranks.begin(), report.ranks.end(),
      [](const RankGroup& a, const RankGroup& b) { return a.terms.total() < b.terms.total(); });
}

std::string verdict(const MemoryReport& report) {
  const RankGroup& most = fullest(report);
  if (!report.limit) return fmt::format("rank {} needs {}", most.first, bytes(most.terms.total()));
  const std::string need =
      fmt::format("rank {} needs {} of the {} that {} gives it", most.first,
                  bytes(most.terms.total()), bytes(*report.limit), report.limit_name);
  if (report.fits) return "it fits: " + need;
  return fmt::format("it does not fit: {} ({}). {}", need, parts(most.terms), cure_text(report));
}

std::string describe(const MemoryReport& report) {
  std::string text = fmt::format("{:>12}", "ranks");
  for (const Term& term : kTerms) text += fmt::format(" {:>11}", term.name);
  text += fmt::format(" {:>11} {:>11}\n", "total", "(shared)");
  for (const RankGroup& group : report.ranks) {
    text += fmt::format("{:>12}", ranks_of(group));
    for (const Term& term : kTerms) text += fmt::format(" {:>11}", bytes(group.terms.*term.bytes));
    text += fmt::format(" {:>11} {:>11}\n", bytes(group.terms.total()), bytes(group.terms.shared));
  }
  return text + "\n" + bars(report) + "\n" + verdict(report);
}

core::Json to_json(const MemoryReport& report) {
  core::Json json;
  json["ranks"] = core::Json::array();
  for (const RankGroup& group : report.ranks) {
    for (std::int64_t rank = group.first; rank <= group.last; ++rank) {
      core::Json one = {{"rank", rank}};
      for (const Term& term : kTerms) one[term.name] = (group.terms.*term.bytes).value();
      one["shared"] = group.terms.shared.value();
      one["total"] = group.terms.total().value();
      json["ranks"].push_back(std::move(one));
    }
  }
  json["limit"] = report.limit ? core::Json(report.limit->value()) : core::Json(nullptr);
  json["fits"] = report.limit ? core::Json(report.fits) : core::Json(nullptr);
  json["cures"] = core::Json::array();
  std::vector<Cure> all = report.cures;
  if (report.replicas) all.push_back(*report.replicas);
  for (const Cure& cure : all) {
    json["cures"].push_back({{"change", cure.change},
                             {"override", cure.override},
                             {"total", cure.terms.total().value()}});
  }
  return json;
}

}  // namespace tutti::spec

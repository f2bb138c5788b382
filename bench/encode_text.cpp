// Encodes one file with GPT-2's tokenizer on one thread, several times; bench/tokenizer.py runs it
// beside its peer.
//
//   encode_text VOCABULARY_FOLDER TEXT ROUNDS [IDS]
//
// Prints one JSON document: bytes, ids and the seconds of each round, in which a new encoder with
// an empty cache encodes the whole text. IDS gets the ids as 32-bit numbers, so that the caller can
// compare them before it believes the times.
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "data/tokenizer.h"

int main(int argc, char** argv) {
  using namespace tutti;
  if (argc < 4) {
    fmt::print(stderr, "usage: encode_text VOCABULARY_FOLDER TEXT ROUNDS [IDS]\n");
    return 2;
  }
  try {
    const auto tokenizer = data::make_tokenizer("gpt2", argv[1]);
    const std::string text = core::read_file(argv[2]);
    std::vector<std::uint32_t> ids;
    std::vector<double> seconds;
    for (int round = 0; round < std::atoi(argv[3]); ++round) {
      ids.clear();
      const core::Stopwatch watch;
      tokenizer->encoder()->encode(text, [&](std::span<const std::uint32_t> some) {
        ids.insert(ids.end(), some.begin(), some.end());
      });
      seconds.push_back(watch.elapsed().count());
    }
    if (argc > 4) {
      core::write_file_atomically(
          argv[4], {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]});
    }
    fmt::print(
        "{}\n",
        core::Json{{"bytes", text.size()}, {"ids", ids.size()}, {"seconds", seconds}}.dump());
    return 0;
  } catch (const core::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_status();
  }
}

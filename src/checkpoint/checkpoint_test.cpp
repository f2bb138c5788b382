// Saved by some ranks, read by others, bit for bit; damaged anywhere, refused with words that help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>

#include "checkpoint/checkpoint_fixture.h"
#include "core/file.h"
#include "core/hash.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::ConfigError;
using core::Json;
using core::RunError;
using fixture::CheckpointFolder;
using fixture::expect_model;
using fixture::Model;
using fixture::save;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Checkpoint = CheckpointFolder;
using Damage = CheckpointFolder;
using Prune = CheckpointFolder;

TEST_F(Checkpoint, AnyNumberOfRanksReadsWhatAnyOtherWrote) {
  const Model model(9);
  fs::path from = save(folder_, 9, 2);
  for (const int ranks : {3, 1, 4, 50}) {  // 50: more ranks than elements, most own nothing
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    Reader reader(from);
    std::vector<std::string> texts;
    const fs::path to = folder_.parent_path() / fmt::format("ranks-{}", ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<OwnedPiece> owned = model.owned(rank, ranks);
      std::vector<std::vector<std::byte>> memory;
      for (OwnedPiece& piece : owned) {  // what this rank holds comes from the checkpoint alone
        memory.emplace_back(piece.bytes.size());
        reader.read(piece.tensor, std::vector{Target{piece.slice, memory.back()}});
        EXPECT_TRUE(std::ranges::equal(memory.back(), piece.bytes)) << piece.tensor;
        piece.bytes = memory.back();
      }
      texts.push_back(write_rank_file(temporary_folder(to, 9), rank, owned));
    }
    from = commit(to, reader.index(), texts);
    expect_model(from, 9);
  }
}

TEST_F(Checkpoint, IndexSurvivesItsJson) {
  const Index index = read_index(save(folder_, 3, 2, 1.25));
  EXPECT_EQ(index.step, 3);
  EXPECT_EQ(index.seed, 18446744073709551615ULL);
  EXPECT_EQ(index.samples, 36U);
  EXPECT_EQ(index.valid_loss, 1.25);
  EXPECT_EQ(index.model, fixture::index_of(3).model);
  ASSERT_EQ(index.tensors.size(), 3U);
  EXPECT_EQ(index.tensors[1].name, "exp_avg/w") << "order of first mention";
  EXPECT_THAT(index.tensors[0].shape, ElementsAre(5, 7));
  EXPECT_EQ(index.tensors[0].pieces[1].slice, (mesh::FlatSlice{17, 18}));
  const Index again = index_from_json(Json::parse(to_json(index).dump()), "x");
  EXPECT_EQ(again.tensors, index.tensors);
  EXPECT_EQ(to_json(again), to_json(index));
}

TEST_F(Checkpoint, EveryFileOfItParsesBack) {
  const fs::path checkpoint = save(folder_, 3, 2, std::nan(""));
  EXPECT_EQ(read_index(checkpoint).valid_loss, std::nullopt) << "JSON knows no NaN";
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".json") {
      EXPECT_TRUE(Json::accept(core::read_file(path))) << path;
    } else if (path.extension() == ".safetensors") {
      EXPECT_EQ(core::SafetensorsFile(path).entries().size(), 3U) << path;
    } else {
      EXPECT_EQ(path.filename(), kDoneFile);
    }
  }
}

TEST_F(Checkpoint, OneRanksFileIsAnOrdinaryModelFile) {
  const core::SafetensorsFile file(save(folder_, 3, 1) / "rank-0.safetensors");
  EXPECT_THAT(file.at("w").shape, ElementsAre(5, 7));
  EXPECT_THAT(file.at("exp_avg/w").shape, ElementsAre(5, 7));
}

TEST_F(Checkpoint, LatestIsTheHighestStepWithAMark) {
  EXPECT_EQ(latest_checkpoint(folder_), std::nullopt) << "no folder at all";
  save(folder_, 9, 1);
  save(folder_, 10, 1);
  save(folder_, 11, 1);
  fs::remove(folder_ / "step-11" / kDoneFile);
  fs::create_directories(folder_ / "step-012");
  fs::create_directories(folder_ / "step-13.tmp");
  EXPECT_EQ(latest_checkpoint(folder_), folder_ / "step-10") << "a number, not a word";
  EXPECT_EQ(complete_checkpoints(folder_).front().step, 9);
}

TEST_F(Checkpoint, IsFoundFromItsRunOrItsFolder) {
  save(folder_, 9, 1);
  save(folder_, 10, 1);
  EXPECT_EQ(find_checkpoint(folder_.parent_path()), folder_ / "step-10");
  EXPECT_EQ(find_checkpoint(folder_), folder_ / "step-10");
  EXPECT_EQ(find_checkpoint(folder_ / "step-9" / ""), folder_ / "step-9");
  EXPECT_THROW(find_checkpoint(folder_ / "step-8"), ConfigError);
}

TEST_F(Checkpoint, OfAStepThatIsThereIsReplaced) {
  save(folder_, 4, 3);
  const Model other(77);
  const std::vector texts = {write_rank_file(temporary_folder(folder_, 4), 0, other.owned(0, 1))};
  const fs::path checkpoint = commit(folder_, fixture::index_of(4), texts);
  expect_model(checkpoint, 77);
  EXPECT_FALSE(fs::exists(checkpoint / "rank-1.safetensors"));
}

TEST_F(Checkpoint, TakesNoFilesFromAnAttemptThatDied) {
  const fs::path temporary = temporary_folder(folder_, 4);
  write_rank_file(temporary, 5, Model(1).owned(0, 1));
  const fs::path checkpoint = save(folder_, 4, 2);
  EXPECT_FALSE(fs::exists(checkpoint / "rank-5.safetensors"));
  expect_model(checkpoint, 4);
}

TEST_F(Checkpoint, ThatNobodyCouldResumeIsNotCommitted) {
  save(folder_, 1, 1);
  const Model model(2);
  const auto commit_with = [&](std::vector<OwnedPiece> first, std::vector<OwnedPiece> second) {
    const fs::path temporary = temporary_folder(folder_, 2);
    commit(
        folder_, fixture::index_of(2),
        std::vector{write_rank_file(temporary, 0, first), write_rank_file(temporary, 1, second)});
  };
  EXPECT_THAT([&] { commit_with(model.owned(0, 3), model.owned(2, 3)); },
              ThrowsMessage<RunError>(HasSubstr("no rank wrote element 11 of \"w\"")));
  std::vector<OwnedPiece> reshaped = model.owned(1, 2);
  reshaped[0].shape = {7, 5};
  EXPECT_THAT([&] { commit_with(model.owned(0, 2), reshaped); },
              ThrowsMessage<RunError>(HasSubstr("ranks disagree about \"w\"")));
  EXPECT_THAT([&] { commit(folder_, fixture::index_of(2), std::vector<std::string>{"{"}); },
              ThrowsMessage<RunError>(HasSubstr("rank 0 are not JSON")));
  EXPECT_THAT(names(), ElementsAre("step-1"));
}

TEST_F(Checkpoint, RefusesReadsThatDoNotFit) {
  Reader reader(save(folder_, 2, 2));
  std::vector<std::byte> memory(8);
  const auto read = [&](const char* name, mesh::FlatSlice slice) {
    reader.read(name, std::vector{Target{slice, memory}});
  };
  EXPECT_NO_THROW(read("w", {33, 2}));
  EXPECT_THROW(read("w", {34, 2}), std::invalid_argument) << "leaves the tensor";
  EXPECT_THROW(read("w", {0, 3}), std::invalid_argument) << "3 elements into 8 bytes";
  EXPECT_THAT([&] { read("v", {0, 2}); }, ThrowsMessage<ConfigError>(HasSubstr("no tensor \"v\"")));
}

TEST_F(Checkpoint, OfAnotherModelIsRefusedKeyByKey) {
  const Index index = read_index(save(folder_, 2, 1));
  EXPECT_TRUE(check_model(index, index.model).empty());
  EXPECT_TRUE(check_model(index, {{"layers", 2}}).empty()) << "only what the run asks for";
  const auto problems =
      check_model(index, {{"kind", "gpt2"}, {"layers", 3}, {"dropout", 0.0}, {"heads", 4}});
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_THAT(problems[0].text, AllOf(HasSubstr("layers = 3"), HasSubstr("holds layers = 2")));
  EXPECT_THAT(problems[1].text, HasSubstr("heads = 4"));
}

/// Thousands of times: without fsync, and not in place, which ext4 would flush too.
void overwrite(const fs::path& path, const std::string& content) {
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

/// What reading all of it says, or "fine".
std::string verdict(const fs::path& checkpoint) {
  try {
    Reader(checkpoint).verify_all();
    return "fine";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST_F(Damage, OfAnyByteIsSeen) {
  const fs::path checkpoint = save(folder_, 2, 2);
  ASSERT_EQ(verdict(checkpoint), "fine");
  std::mt19937 random(11);
  for (const char* name : {"index.json", "done", "rank-0.safetensors", "rank-1.safetensors"}) {
    const std::string whole = core::read_file(checkpoint / name);
    for (std::size_t place = 0; place < whole.size(); ++place) {
      std::string damaged = whole;
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << random() % 8));
      overwrite(checkpoint / name, damaged);
      EXPECT_THAT(verdict(checkpoint), HasSubstr(checkpoint.string()))
          << name << ", byte " << place;
    }
    overwrite(checkpoint / name, whole);
  }
  EXPECT_EQ(verdict(checkpoint), "fine");
}

TEST_F(Damage, OffersThePreviousCheckpoint) {
  save(folder_, 5, 1);
  save(folder_, 6, 1);
  const fs::path file = save(folder_, 7, 2) / "rank-1.safetensors";
  const std::string whole = core::read_file(file);
  const std::string offer = "--resume " + (folder_ / "step-6").string();

  overwrite(file, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(verdict(folder_ / "step-7"),
              AllOf(HasSubstr("rank-1.safetensors"), HasSubstr("cut short"), HasSubstr(offer)));
  fs::remove(file);
  EXPECT_THAT(verdict(folder_ / "step-7"), AllOf(HasSubstr("No such file"), HasSubstr(offer)));
  fs::remove(folder_ / "step-7" / kIndexFile);
  EXPECT_THAT(verdict(folder_ / "step-7"), AllOf(HasSubstr("index.json"), HasSubstr(offer)));
  fs::remove(folder_ / "step-7" / kDoneFile);
  EXPECT_THAT(verdict(folder_ / "step-7"), AllOf(HasSubstr("no done mark"), HasSubstr(offer)));
  fs::remove(folder_ / "step-5" / "rank-0.safetensors");
  EXPECT_THAT(verdict(folder_ / "step-5"), HasSubstr("no older checkpoint"));
  EXPECT_THAT(verdict(folder_ / "step-8"), HasSubstr("does not exist"));
}

/// The refusal of an index that is marked as done but says `change`.
std::string refusal_of(const fs::path& checkpoint, const std::function<void(Json&)>& change) {
  const std::string whole = core::read_file(checkpoint / kIndexFile);
  Json json = Json::parse(whole);
  change(json);
  const auto mark = [&](const std::string& text) {
    overwrite(checkpoint / kIndexFile, text);
    overwrite(checkpoint / kDoneFile, core::to_hex(core::xxh3(text)) + "\n");
  };
  mark(json.dump());
  const std::string refusal = verdict(checkpoint);
  mark(whole);
  return refusal;
}

TEST_F(Damage, OfAnyFieldOfTheIndexIsNamed) {
  const fs::path checkpoint = save(folder_, 2, 2);
  const auto refusal = [&](const char* pointer, const Json& value) {
    return refusal_of(checkpoint, [&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  const Json whole = Json::parse(core::read_file(checkpoint / kIndexFile));
  for (const auto& [key, value] : whole.items()) {
    const std::string name = key;
    EXPECT_THAT(refusal_of(checkpoint, [&](Json& json) { json.erase(name); }),
                HasSubstr("\"" + name + "\" is missing"));
  }
  EXPECT_THAT(refusal("/format_version", 3), HasSubstr("this tutti reads 1 to 2"));
  EXPECT_THAT(refusal("/step", -1), HasSubstr("\"step\" is not a whole number"));
  EXPECT_THAT(refusal("/samples", 0.5), HasSubstr("\"samples\""));
  EXPECT_THAT(refusal("/valid_loss", "low"), HasSubstr("\"valid_loss\""));
  EXPECT_THAT(refusal("/tensors", 3), HasSubstr("\"tensors\" is not a list"));
  EXPECT_THAT(refusal("/tensors/1/name", "w"), HasSubstr("\"w\" stands there twice"));
  EXPECT_THAT(refusal("/tensors/0/dtype", "F31"), HasSubstr("\"F31\" is unknown"));
  EXPECT_THAT(refusal("/tensors/0/dtype", "I32"), HasSubstr("bytes of F32, the index says"));
  EXPECT_THAT(refusal("/tensors/0/shape", {1ULL << 40, 1ULL << 40}), HasSubstr("\"shape\""));
  EXPECT_THAT(refusal("/tensors/0/shape", {6, 7}), HasSubstr("element 35 of \"w\""));
  EXPECT_THAT(refusal("/tensors/0/shape", {2, 2}), HasSubstr("leaves the tensor"));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/first", 1), HasSubstr("element 0 of \"w\""));
  EXPECT_THAT(refusal("/tensors/0/pieces/1/count", INT64_MAX), HasSubstr("leaves the tensor"));
  EXPECT_THAT(refusal("/tensors/0/pieces/1/count", 1), HasSubstr("element 18 of \"w\""));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/key", "x"), HasSubstr("no array \"x\""));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/xxh3", "12"), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/xxh3", "0000000000000000"), HasSubstr("xxh3 differs"));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/file", "../x"), HasSubstr("plain name"));
  EXPECT_EQ(verdict(checkpoint), "fine");
}

/// The 5 x 7 tensor "w" of Model, cut along `dim` over `of` ranks, each part in two pieces.
fs::path save_in_parts(const fs::path& checkpoints, std::int64_t step, int dim, int of) {
  const Model model(step);
  std::vector<std::vector<float>> parts;  // outlive the pieces
  std::vector<std::string> texts;
  for (int index = 0; index < of; ++index) {
    const mesh::Cut cut{.dim = dim, .index = index, .of = of};
    const auto shape = mesh::part_shape({5, 7}, cut);
    std::vector<float>& part = parts.emplace_back();
    for (const mesh::FlatSlice& run : mesh::place_in_whole({5, 7}, cut, {0, shape[0] * shape[1]})) {
      part.insert(part.end(), model.weight.begin() + run.first,
                  model.weight.begin() + run.first + run.count);
    }
    std::vector<OwnedPiece> pieces;
    const auto size = static_cast<std::int64_t>(part.size());
    for (const mesh::FlatSlice& slice :
         {mesh::FlatSlice{0, size / 3}, {size / 3, size - size / 3}}) {
      const auto bytes = std::as_bytes(std::span(part).subspan(slice.first, slice.count));
      pieces.push_back({"w", "F32", {5, 7}, slice, bytes, cut});
    }
    texts.push_back(write_rank_file(temporary_folder(checkpoints, step), index, pieces));
  }
  return commit(checkpoints, fixture::index_of(step), texts);
}

TEST_F(Checkpoint, PartsAlongAnyDimMakeTheWholeTensor) {
  for (const int dim : {0, 1}) {
    for (const int of : {2, 3}) {
      const std::int64_t step = 10 * dim + of;
      Reader reader(save_in_parts(folder_, step, dim, of));
      const Model model(step);
      const std::vector<double> expected(model.weight.begin(), model.weight.end());
      EXPECT_EQ(reader.read_doubles("w"), expected) << dim << " " << of;
    }
  }
}

TEST_F(Checkpoint, OlderReadersTakeOneWithoutParts) {
  const auto version = [](const fs::path& checkpoint) {
    return Json::parse(core::read_file(checkpoint / kIndexFile))["format_version"].get<int>();
  };
  EXPECT_EQ(version(save(folder_, 1, 2)), 1);
  EXPECT_EQ(version(save_in_parts(folder_, 2, 1, 2)), 2);
}

TEST_F(Damage, OfAPartIsNamed) {
  const fs::path checkpoint = save_in_parts(folder_, 2, 1, 2);
  const auto refusal = [&](const char* pointer, const Json& value) {
    return refusal_of(checkpoint, [&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_EQ(verdict(checkpoint), "fine");
  EXPECT_THAT(refusal("/tensors/0/pieces/0/part", 3), HasSubstr("is not an object"));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/part/dim", 2), HasSubstr("dim 2"));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/part/of", 0), HasSubstr("part 0 of 0"));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/part/bands", 1ULL << 40), HasSubstr("too large"));
  EXPECT_THAT(refusal("/tensors/0/pieces/0/part/index", 1), HasSubstr("no piece holds element"));
  EXPECT_THAT(refusal("/tensors/0/pieces/1/count", 30), HasSubstr("leaves the tensor"));
}

TEST_F(Prune, KeepsTheLastAndTheBest) {
  save(folder_, 10, 1, 1.5);
  save(folder_, 20, 1, 1.25);
  save(folder_, 30, 1, 1.75);
  save(folder_, 40, 1);
  save(folder_, 50, 1, 2.0);
  fs::create_directories(folder_ / "step-45.tmp");
  fs::create_directories(folder_ / "step-60.tmp");
  fs::create_directories(folder_ / "notes");
  prune(folder_, 2);
  EXPECT_THAT(names(), ElementsAre("notes", "step-20", "step-40", "step-50", "step-60.tmp"));
  prune(folder_, 1);
  EXPECT_THAT(names(), ElementsAre("notes", "step-20", "step-50", "step-60.tmp"));
  prune(folder_, 9);
  EXPECT_EQ(names().size(), 4U);
  EXPECT_THROW(prune(folder_, 0), std::invalid_argument);
  EXPECT_NO_THROW(prune(folder_ / "none", 1));
}

TEST(FolderName, IsTheStepAndNothingElse) {
  EXPECT_EQ(folder_name(50), "step-50");
  EXPECT_EQ(step_of("a/step-50"), 50);
  for (const char* other : {"step-", "step-5x", "step-05", "step-5.tmp", "steps-5", "step--0"}) {
    EXPECT_EQ(step_of(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace tutti::checkpoint

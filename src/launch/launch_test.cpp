// Decisions of the launcher that need no process: how a job ends, whose rank this is, how lines are
// cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>

#include "launch/environment.h"
#include "launch/output.h"
#include "launch/reap.h"

namespace tutti::launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Env = std::map<std::string, std::string>;

std::optional<JoinOptions> read(const Env& env, std::vector<std::string>* texts = nullptr) {
  std::vector<core::Problem> problems;
  const auto get = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = env.find(name);
    return found == env.end() ? std::nullopt : std::optional(found->second);
  };
  const auto join = from_environment(get, problems);
  for (const core::Problem& problem : problems) {
    if (texts != nullptr) texts->push_back(problem.text);
  }
  EXPECT_TRUE(texts != nullptr || problems.empty());
  return join;
}

const Env kTorchrun = {{"RANK", "3"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "h"},
                       {"MASTER_PORT", "29500"},
                       {"TORCHELASTIC_RUN_ID", "job7"}};

TEST(Environment, AnEmptyOneIsNoRank) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"TORCHELASTIC_RUN_ID", "x"}, {"TUTTI_RUN_ID", "y"}}));
}

TEST(Environment, ReadsTorchrunsVariables) {
  const auto join = read(kTorchrun);
  ASSERT_TRUE(join);
  EXPECT_EQ(join->rank, 3);
  EXPECT_EQ(join->ranks, 4);
  EXPECT_EQ(join->local_rank, 1);
  EXPECT_EQ(join->local_ranks, 2);
  EXPECT_EQ(join->master_addr, "h");
  EXPECT_EQ(join->master_port, 29500);
  EXPECT_EQ(join->run_id, "job7.0");
  EXPECT_EQ(join->from, "torchrun");
  EXPECT_EQ(join->store_listen_fd, -1);
}

TEST(Environment, TorchrunsAgentServesTheStoreAndARestartIsAnotherRun) {
  EXPECT_FALSE(read(kTorchrun)->agent_store);
  Env env = kTorchrun;
  env["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  env["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_TRUE(read(env)->agent_store);
  EXPECT_EQ(read(env)->run_id, "job7.2");
  env["TUTTI_RUN_ID"] = "ours";  // our launcher, itself started by torchrun
  EXPECT_FALSE(read(env)->agent_store);
  EXPECT_EQ(read(env)->run_id, "ours");
}

TEST(Environment, OnlyRankZeroUnderOurLauncherHasTheStoresSocket) {
  Env env = kTorchrun;
  env["TUTTI_RUN_ID"] = "ours";
  env["TUTTI_STORE_FD"] = "7";
  EXPECT_EQ(read(env)->store_listen_fd, -1);
  env["RANK"] = env["LOCAL_RANK"] = "0";
  const auto join = read(env);
  EXPECT_EQ(join->store_listen_fd, 7);
  EXPECT_EQ(join->run_id, "ours");
  EXPECT_EQ(join->from, "tutti");
  env.erase("TUTTI_RUN_ID");  // a number left behind by something else is not a socket of ours
  EXPECT_EQ(read(env)->store_listen_fd, -1);
}

TEST(Environment, ALauncherThatDoesNotSpeakOfHostsHasOne) {
  Env env = kTorchrun;
  env.erase("LOCAL_RANK");
  env.erase("LOCAL_WORLD_SIZE");
  EXPECT_EQ(read(env)->local_rank, 3);
  EXPECT_EQ(read(env)->local_ranks, 4);
}

const Env kMpirun = {{"OMPI_COMM_WORLD_RANK", "3"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                     {"PMIX_NAMESPACE", "1407778817"},    {"PMIX_RANK", "3"}};

// As `srun -n 5 -N 2` of Slurm 22.05 sets them, for a task on the second node.
const Env kSrun = {{"SLURM_PROCID", "4"},
                   {"SLURM_LOCALID", "1"},
                   {"SLURM_NODEID", "1"},
                   {"SLURM_NTASKS", "5"},
                   {"SLURM_JOB_ID", "17"},
                   {"SLURM_STEP_ID", "2"},
                   {"SLURM_STEP_NUM_TASKS", "5"},
                   {"SLURM_STEP_TASKS_PER_NODE", "3,2"},
                   {"SLURM_STEP_NODELIST", "node[07-08]"}};

TEST(Environment, ReadsOpenMpisVariables) {
  const auto join = read(kMpirun);
  ASSERT_TRUE(join);
  EXPECT_EQ(join->rank, 3);
  EXPECT_EQ(join->ranks, 4);
  EXPECT_EQ(join->local_rank, 3);
  EXPECT_EQ(join->local_ranks, 4);
  EXPECT_EQ(join->master_addr, "127.0.0.1");
  EXPECT_EQ(join->run_id, "1407778817");
  EXPECT_EQ(join->from, "mpirun");
  EXPECT_EQ(join->store_listen_fd, -1);
}

TEST(Environment, DerivesOnePortPerJob) {
  const int port = read(kMpirun)->master_port;
  EXPECT_GE(port, 20000);
  EXPECT_LT(port, 30000);
  Env env = kMpirun;
  env["OMPI_COMM_WORLD_RANK"] = env["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  EXPECT_EQ(read(env)->master_port, port);
  env["PMIX_NAMESPACE"] = "1407778818";
  EXPECT_NE(read(env)->master_port, port);
  env["MASTER_PORT"] = "1234";
  EXPECT_EQ(read(env)->master_port, 1234);
}

TEST(Environment, ReadsSlurmsVariables) {
  const auto join = read(kSrun);
  ASSERT_TRUE(join);
  EXPECT_EQ(join->rank, 4);
  EXPECT_EQ(join->ranks, 5);
  EXPECT_EQ(join->local_rank, 1);
  EXPECT_EQ(join->local_ranks, 2);
  EXPECT_EQ(join->master_addr, "node07");
  EXPECT_EQ(join->run_id, "17.2");
  EXPECT_EQ(join->from, "srun");
  Env env = kSrun;
  env["MASTER_ADDR"] = "elsewhere";  // what scripts for srun export
  EXPECT_EQ(read(env)->master_addr, "elsewhere");
}

TEST(Environment, InsideASlurmJobOnlyTheTasksOfSrunAreRanks) {
  Env batch = kSrun;  // the script itself
  batch["SLURM_PROCID"] = batch["SLURM_LOCALID"] = "0";
  for (const char* name : {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"}) {
    batch.erase(name);
  }
  EXPECT_FALSE(read(batch));
  Env shell = kSrun;  // srun --pty
  shell["SLURM_PROCID"] = shell["SLURM_LOCALID"] = "0";
  shell["SLURM_STEP_NUM_TASKS"] = shell["SLURM_STEP_TASKS_PER_NODE"] = "1";
  EXPECT_FALSE(read(shell));
}

TEST(Environment, TheInnermostLauncherSpeaks) {
  Env env = kSrun;
  env.insert(kMpirun.begin(), kMpirun.end());  // mpirun inside a job
  EXPECT_EQ(read(env)->from, "mpirun");
  env.insert(kTorchrun.begin(), kTorchrun.end());  // torchrun inside that
  EXPECT_EQ(read(env)->from, "torchrun");
  env = kSrun;
  env["PMI_RANK"] = "9";  // Slurm's own interface for MPI, without MPICH's local rank
  EXPECT_EQ(read(env)->from, "srun");
}

TEST(Environment, ReadsMpichsVariables) {
  Env env = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const auto join = read(env);
  ASSERT_TRUE(join);
  EXPECT_EQ(join->from, "mpiexec");
  EXPECT_EQ(join->rank, 1);
  EXPECT_EQ(join->local_ranks, 2);
  EXPECT_EQ(join->master_port, 29500);
}

TEST(Environment, RefusesWhatOtherLaunchersCannotHaveSet) {
  const auto refusal = [](Env env, const char* name, const char* value) {
    env[name] = value;
    std::vector<std::string> texts;
    EXPECT_FALSE(read(env, &texts)) << name << " = " << value;
    return texts.empty() ? std::string() : texts.front();
  };
  EXPECT_THAT(refusal(kMpirun, "OMPI_COMM_WORLD_RANK", "4"), HasSubstr("OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(refusal(kMpirun, "OMPI_COMM_WORLD_LOCAL_SIZE", "x"), HasSubstr("LOCAL_SIZE"));
  EXPECT_THAT(refusal(kMpirun, "OMPI_COMM_WORLD_LOCAL_RANK", "4"), HasSubstr("LOCAL_RANK"));
  EXPECT_THAT(refusal(kMpirun, "MASTER_PORT", "0"), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(refusal(kSrun, "SLURM_STEP_TASKS_PER_NODE", "3"), HasSubstr("TASKS_PER_NODE"));
  EXPECT_THAT(refusal(kSrun, "SLURM_LOCALID", "2"), HasSubstr("SLURM_LOCALID"));
  Env hosts = kMpirun;
  hosts["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  EXPECT_THAT(refusal(hosts, "OMPI_COMM_WORLD_LOCAL_SIZE", "2"), HasSubstr("Set MASTER_ADDR"));
}

TEST(SlurmLists, AreReadAsSlurmWritesThem) {
  EXPECT_EQ(first_host("vm"), "vm");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("n[01-03,7],x"), "n01");
  EXPECT_EQ(first_host("n[5,9]"), "n5");
  EXPECT_EQ(first_host("rack[2-3]n[08-11]-ib"), "rack2n08-ib");
  EXPECT_EQ(first_host(""), "");
  EXPECT_EQ(first_host("n["), "n");
  for (const auto& [node, tasks] : {std::pair{0, 2}, {2, 2}, {3, 1}, {4, 0}}) {
    EXPECT_EQ(tasks_of_node("2(x3),1", node), tasks) << "node " << node;
  }
  for (const char* damaged : {"", "x", "2(x", "2(x3", "2x3", "2(3)"}) {
    EXPECT_EQ(tasks_of_node(damaged, 0), 0) << damaged;
  }
}

TEST(Environment, NamesWhatIsMissing) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Env env = kTorchrun;
    env.erase(name);
    std::vector<std::string> texts;
    EXPECT_FALSE(read(env, &texts)) << name;
    EXPECT_THAT(texts, ElementsAre(HasSubstr(name)));
  }
}

TEST(Environment, RefusesImpossibleNumbers) {
  for (const auto& [name, value] : {std::pair{"RANK", "4"},
                                    {"RANK", "-1"},
                                    {"RANK", "1x"},
                                    {"RANK", ""},
                                    {"WORLD_SIZE", "0"},
                                    {"LOCAL_RANK", "2"},
                                    {"LOCAL_WORLD_SIZE", "5"},
                                    {"MASTER_PORT", "0"},
                                    {"MASTER_PORT", "65536"}}) {
    Env env = kTorchrun;
    env[name] = value;
    std::vector<std::string> texts;
    EXPECT_FALSE(read(env, &texts)) << name << " = " << value;
    EXPECT_THAT(texts,
                testing::Contains(AllOf(HasSubstr(name), HasSubstr("is not a whole number"))));
  }
}

RankEnd exited(int rank, int status, double after_s) {
  return {.rank = rank, .pid = 100 + rank, .exit_status = status, .after_s = after_s};
}
RankEnd killed(int rank, int signal, double after_s) {
  return {.rank = rank, .pid = 100 + rank, .signal = signal, .after_s = after_s};
}

TEST(EndPolicy, AJobWithoutFailuresIsLeftAlone) {
  EndPolicy policy({});
  policy.ended(exited(0, 0, 1));
  policy.ended(exited(1, 0, 100));
  EXPECT_FALSE(policy.next_deadline_s());
  EXPECT_EQ(policy.due(1e9), Action::None);
  EXPECT_EQ(policy.exit_status(), 0);
}

TEST(EndPolicy, AfterAFailureTheOthersGetThreeSecondsThenTermThenKill) {
  EndPolicy policy({});
  policy.ended(killed(1, SIGKILL, 10));
  EXPECT_EQ(policy.next_deadline_s(), 13);
  EXPECT_EQ(policy.due(12.9), Action::None);
  EXPECT_EQ(policy.due(13), Action::Terminate);
  EXPECT_EQ(policy.due(13.5), Action::None);
  EXPECT_EQ(policy.next_deadline_s(), 14);
  EXPECT_EQ(policy.due(14), Action::Kill);
  EXPECT_EQ(policy.due(20), Action::None);
  EXPECT_FALSE(policy.next_deadline_s());
  EXPECT_EQ(policy.exit_status(), 1);
}

TEST(EndPolicy, TheFirstFailureWins) {
  EndPolicy policy({});
  policy.ended(exited(0, 0, 1));
  policy.ended(exited(2, 3, 2));
  policy.ended(exited(1, 2, 2.5));
  EXPECT_EQ(policy.first_failure()->rank, 2);
  EXPECT_EQ(policy.exit_status(), 1);
  EXPECT_EQ(policy.next_deadline_s(), 5) << "a second failure gives no second grace";
}

TEST(EndPolicy, AUsersMistakeFoundByARankStaysOne) {
  EndPolicy policy({});
  policy.ended(exited(1, 2, 0.5));
  EXPECT_EQ(policy.exit_status(), 2);
}

TEST(EndPolicy, AfterSigintRanksMaySaveForAsLongAsTheyNeed) {
  EndPolicy policy({});
  policy.signalled(SIGINT, 5);
  EXPECT_FALSE(policy.next_deadline_s());
  policy.ended(exited(0, 130, 6));
  policy.ended(killed(1, SIGINT, 7));
  policy.ended(exited(2, 0, 700));
  EXPECT_FALSE(policy.first_failure());
  EXPECT_EQ(policy.exit_status(), 130);
}

TEST(EndPolicy, ASecondSigintKills) {
  EndPolicy policy({});
  policy.signalled(SIGINT, 5);
  policy.signalled(SIGINT, 6);
  EXPECT_EQ(policy.due(6), Action::Kill);
  policy.ended(killed(0, SIGKILL, 6.1));
  EXPECT_FALSE(policy.first_failure()) << "our own doing is no failure";
  EXPECT_EQ(policy.exit_status(), 130);
}

TEST(EndPolicy, ADiskThatFillsWhileSavingAfterSigintIsAFailure) {
  EndPolicy policy({});
  policy.signalled(SIGINT, 5);
  policy.ended(exited(0, 1, 6));
  EXPECT_EQ(policy.first_failure()->rank, 0);
  EXPECT_EQ(policy.exit_status(), 1);
  EXPECT_EQ(policy.next_deadline_s(), 9);
}

TEST(EndPolicy, SigtermHasADeadline) {
  EndPolicy policy({});
  policy.signalled(SIGTERM, 5);
  EXPECT_EQ(policy.next_deadline_s(), 15);
  EXPECT_EQ(policy.due(15), Action::Kill);
  EXPECT_EQ(policy.exit_status(), 143);
}

TEST(Describe, SaysHowARankEnded) {
  EXPECT_EQ(describe(killed(1, SIGKILL, 12.34)),
            "rank 1 (pid 101) was killed by SIGKILL 12.3 s after the start");
  EXPECT_EQ(describe(exited(0, 3, 0)),
            "rank 0 (pid 100) ended with status 3 0.0 s after the start");
}

TEST(LinePrefixer, JoinsPiecesAndKeepsTheUnfinishedLine) {
  LinePrefixer lines("[1] ");
  EXPECT_EQ(lines.take("a"), "");
  EXPECT_EQ(lines.take("b\n\nc"), "[1] ab\n[1] \n");
  EXPECT_EQ(lines.finish(), "[1] c\n");
  EXPECT_EQ(lines.finish(), "");
  EXPECT_EQ(lines.take("\n"), "[1] \n");
}

TEST(LinePrefixer, CutsALineThatNeverEnds) {
  LinePrefixer lines("> ");
  std::string out = lines.take(std::string(200'000, 'x'));
  EXPECT_EQ(out.size(), 3 * (2 + 65536 + 1));
  out += lines.finish();
  EXPECT_EQ(std::count(out.begin(), out.end(), 'x'), 200'000);
}

}  // namespace
}  // namespace tutti::launch

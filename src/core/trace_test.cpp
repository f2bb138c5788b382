// Events are collected while the trace is on, and leave as documents that other programs open.
#include "core/trace.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/thread.h"

namespace tutti::core {
namespace {

TEST(Trace, CollectsOnlyWhileItIsOn) {
  Trace trace(3);
  trace.add("compute", "before", Seconds(0), Seconds(1));
  trace.set_on(true);
  trace.add("compute", "forward", Seconds(1), Seconds(2), {{"bytes", 8}});
  trace.set_on(false);
  trace.add("compute", "after", Seconds(2), Seconds(3));
  const auto events = trace.take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].rank, 3);
  EXPECT_EQ(events[0].name, "forward");
  EXPECT_EQ(events[0].args["bytes"], 8);
  EXPECT_TRUE(trace.take().empty());
}

TEST(TraceScope, SpansItsScope) {
  Trace trace(0);
  trace.set_on(true);
  const Seconds before = now();
  { const TraceScope scope(&trace, "loader", "next"); }
  const auto events = trace.take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].lane, "loader");
  EXPECT_LE(before, events[0].begin);
  EXPECT_LE(events[0].begin, events[0].end);
  EXPECT_LE(events[0].end, now());
}

TEST(TraceScope, CostsNothingWithoutATraceOrWhileItIsOff) {
  { const TraceScope scope(nullptr, "loader", "next"); }
  Trace trace(0);
  {
    const TraceScope scope(&trace, "loader", "next");
    trace.set_on(true);  // begun while off: its beginning is unknown
  }
  EXPECT_TRUE(trace.take().empty());
}

TEST(Trace, TakesEventsOfSeveralThreads) {
  Trace trace(0);
  trace.set_on(true);
  const auto hundred = [&](std::stop_token) {
    for (int i = 0; i < 100; ++i) trace.add("comm", "x", Seconds(0), Seconds(1));
  };
  {
    const auto first = start_thread("one", hundred);
    const auto second = start_thread("two", hundred);
  }
  EXPECT_EQ(trace.take().size(), 200u);
}

TEST(ChromeTrace, NamesRanksAndLanesAndCountsMicrosecondsFromTheFirstEvent) {
  const Json document =
      chrome_trace({{1, "comm", "reduce", Seconds(10.5), Seconds(10.75), {{"bytes", 64}}},
                    {0, "compute", "forward", Seconds(10), Seconds(11), {}},
                    {0, "comm", "reduce", Seconds(10.25), Seconds(10.5), {}}});
  EXPECT_EQ(
      document.dump(),
      R"({"displayTimeUnit":"ms","traceEvents":[)"
      R"({"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},)"
      R"({"ph":"M","name":"process_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},)"
      R"({"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"rank 1"}},)"
      R"({"ph":"M","name":"process_sort_index","pid":1,"tid":0,"args":{"sort_index":1}},)"
      R"({"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"comm"}},)"
      R"({"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"compute"}},)"
      R"({"ph":"M","name":"thread_name","pid":1,"tid":0,"args":{"name":"comm"}},)"
      R"({"ph":"X","name":"reduce","cat":"comm","pid":1,"tid":0,"ts":500000.0,"dur":250000.0,"args":{"bytes":64}},)"
      R"({"ph":"X","name":"forward","cat":"compute","pid":0,"tid":1,"ts":0.0,"dur":1000000.0},)"
      R"({"ph":"X","name":"reduce","cat":"comm","pid":0,"tid":0,"ts":250000.0,"dur":250000.0}]})");
}

TEST(ChromeTrace, IsADocumentWithoutEventsToo) {
  EXPECT_EQ(chrome_trace({}).dump(), R"({"displayTimeUnit":"ms","traceEvents":[]})");
}

TEST(TraceEvent, GoesToJsonAndBack) {
  for (const Json& args : {Json(), Json{{"bytes", 5}}}) {
    const TraceEvent event{2, "comm", "all_gather", Seconds(1.5), Seconds(2.25), args};
    const TraceEvent back = trace_event_from_json(to_json(event));
    EXPECT_EQ(back.rank, 2);
    EXPECT_EQ(back.lane, "comm");
    EXPECT_EQ(back.name, "all_gather");
    EXPECT_EQ(back.begin, Seconds(1.5));
    EXPECT_EQ(back.end, Seconds(2.25));
    EXPECT_EQ(back.args, args);
  }
}

TEST(TraceEvent, RefusesJsonThatIsNone) {
  EXPECT_THROW(trace_event_from_json({{"rank", 1}}), RunError);
  EXPECT_THROW(trace_event_from_json(Json::parse("[]")), RunError);
}

}  // namespace
}  // namespace tutti::core

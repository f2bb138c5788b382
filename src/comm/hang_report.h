// Why does it not go on? The answer in words, from the diaries in control memory.
#pragma once

#include <string>

#include "comm/operation.h"

namespace tutti::comm {

struct HangReport {
  int culprit = -1;  // world rank of the first one missing
  std::string text;
};

/// Operation, number, group, label and size; who is there, who is not, with pid, last operation and
/// what it said it was doing; a conclusion and a cure.
HangReport hang_report(const Operation& operation);

/// "all_reduce #812", or "send" while it has no number.
std::string operation_title(const Operation& operation);

/// " (bucket 3)", or nothing if there is no label.
std::string quoted_label(const Operation& operation);

}  // namespace tutti::comm

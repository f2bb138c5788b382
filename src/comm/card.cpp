// A card's text, and what names a process for ever.
#include "comm/card.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <fstream>
#include <sstream>

namespace tutti::comm {

std::string Card::text() const {
  return fmt::format("tutti-1\n{}\n{}\n{}\n{}\n{}\n", boot_id, net, address, host, numa);
}

std::optional<Card> Card::parse(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string version;
  Card card;
  if (!std::getline(lines, version) || version != "tutti-1") return std::nullopt;
  if (!std::getline(lines, card.boot_id) || !std::getline(lines, card.net) ||
      !std::getline(lines, card.address) || !std::getline(lines, card.host) ||
      !(lines >> card.numa) || card.numa < -1) {
    return std::nullopt;
  }
  if (card.address.empty() || card.address.size() > sizeof(sockaddr_un::sun_path) - 1) {
    return std::nullopt;
  }
  return card;
}

std::uint64_t process_start(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 21; ++i) fields >> field;
  std::uint64_t start = 0;
  fields >> start;
  return start;
}

}  // namespace tutti::comm

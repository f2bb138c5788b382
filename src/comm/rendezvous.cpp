// How ranks find each other: cards in the store, one AF_UNIX connection per pair, hellos.
#include "comm/rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "comm/addition_order.h"
#include "comm/card.h"
#include "comm/message.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

std::string read_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 128> target = {};
  const ssize_t length = ::readlink(path, target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : "unknown";
}

core::Fd seqpacket_socket() {
  core::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) core::throw_errno("an AF_UNIX socket");
  return fd;
}

// One rank's way into the world. Members in the order of the steps.
class WireUp {
 public:
  /// `epoch`: cards of different epochs do not meet.
  WireUp(Store& store, const WireUpOptions& options, std::uint32_t epoch, Peers& peers)
      : store_(store),
        options_(options),
        epoch_(epoch),
        run_(text_hash(options.run_id)),
        deadline_(core::Seconds(options.wire_up_timeout_s)),
        peers_(peers),
        known_(static_cast<std::size_t>(options.ranks), false) {}

  /// Connects to ranks `call` (they listen) and waits for ranks `expect` (they call).
  void run(const std::vector<int>& call_these, const std::vector<int>& expected) {
    expected_ = expected;
    listen();
    publish_card();
    known_[static_cast<std::size_t>(options_.rank)] = true;
    collect_cards(call_these, expected);
    for (const int peer : call_these) call(peer);
    accept_all();
  }

 private:
  void listen() {
    listener_ = seqpacket_socket();
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;  // the family alone: the kernel picks a free abstract name
    socklen_t length = sizeof(sa_family_t);
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0) {
      core::throw_errno("listening on an AF_UNIX socket");
    }
    length = sizeof(address);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    const std::size_t name_bytes = length - offsetof(sockaddr_un, sun_path);
    mine_.address.assign(address.sun_path + 1, name_bytes - 1);
  }

  void publish_card() {
    std::array<char, HOST_NAME_MAX + 1> host = {};
    ::gethostname(host.data(), host.size() - 1);
    mine_.host = host.data();
    mine_.boot_id = read_line("/proc/sys/kernel/random/boot_id");
    mine_.net = link_target("/proc/self/ns/net");
    const auto me = static_cast<std::size_t>(options_.rank);
    mine_.numa = me < options_.numa.size() ? options_.numa[me] : own_numa_node();
    peers_.set_own_numa(mine_.numa);
    store_.set(run_key(options_.rank), options_.run_id);
    store_.set(card_key(options_.rank), mine_.text());
  }

  [[nodiscard]] std::string card_key(int rank) const {
    return fmt::format("tutti/{}/comm/card/{}/{}", options_.run_id, epoch_, rank);
  }
  // Without the run's id: tells a rank of another run from one that is not there at all.
  [[nodiscard]] static std::string run_key(int rank) { return fmt::format("tutti/run/{}", rank); }

  void collect_cards(const std::vector<int>& call_these, const std::vector<int>& expected) {
    cards_.resize(options_.ranks);
    std::vector<int> missing, all = call_these;
    all.insert(all.end(), expected.begin(), expected.end());
    for (const int peer : all) {
      try {
        // Once one is late the others are only asked whether they are there.
        const core::Deadline patience =
            missing.empty() ? deadline_ : core::Deadline(core::Seconds(0.05));
        check_card(peer, store_.get(card_key(peer), patience));
      } catch (const core::PeerError&) {
        missing.push_back(peer);
      }
    }
    if (!missing.empty()) refuse_missing(missing);
  }

  void check_card(int peer, const std::string& text) {
    const auto card = Card::parse(text);
    if (!card) {
      throw core::RunError(fmt::format(
          "rank {} left no readable card in the store: it runs another version of tutti", peer));
    }
    if (card->boot_id != mine_.boot_id) {
      throw core::RunError(fmt::format(
          "rank {} is on host {}, rank {} on host {}: only ranks of one host can talk so far; the "
          "transport between hosts comes later. Start all ranks on one host.",
          peer, card->host, options_.rank, mine_.host));
    }
    if (card->net != mine_.net) {
      throw core::RunError(fmt::format(
          "ranks {} and {} are on one host but in different network namespaces (containers), where "
          "AF_UNIX names do not reach. Start all ranks in one container.",
          peer, options_.rank));
    }
    cards_[peer] = *card;
  }

  [[noreturn]] void refuse_missing(const std::vector<int>& missing) {
    std::string strangers;
    for (const int peer : missing) {
      try {
        const auto run = store_.get(run_key(peer), core::Deadline(core::Seconds(0.05)));
        if (run != options_.run_id) {
          strangers += fmt::format(" Rank {} came, but of run {}; this is run {}.", peer, run,
                                   options_.run_id);
        }
      } catch (const core::PeerError&) {  // it has never been there: said already
      }
    }
    throw core::PeerError(
        missing.front(),
        fmt::format("rank {} waited {:.1f} s for the others; rank {} did not come.{} Look at their "
                    "logs, and whether all {} ranks were started.",
                    options_.rank, deadline_.length().count(), fmt::join(missing, ", rank "),
                    strangers, options_.ranks));
  }

  Message hello() const {
    Message message;
    message.rank = static_cast<std::uint32_t>(options_.rank);
    message.run = run_;
    message.key = process_start("self");
    return message;
  }

  void call(int peer) {
    core::Fd socket = seqpacket_socket();
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string& name = cards_[peer].address;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
      throw core::PeerError(peer, fmt::format("rank {} came but is gone again: connecting to it "
                                              "failed ({}). Its log ends first.",
                                              peer, std::strerror(errno)));
    }
    send_message(socket.get(), hello(), -1, deadline_);
    const auto answer = await(socket.get(), peer);
    if (!answer || answer->kind != MessageKind::Hello ||
        answer->rank != static_cast<std::uint32_t>(peer)) {
      throw core::PeerError(
          peer, fmt::format(
                    "rank {} refused the connection of rank {}: {}", peer, options_.rank,
                    answer && answer->kind == MessageKind::Refuse ? answer->text : "it closed it"));
    }
    keep(std::move(socket), peer, answer->key);
  }

  // The next message, or nothing if the other side closes, sends garbage or is late.
  std::optional<Message> await(int socket, int peer) {
    while (!deadline_.passed()) {
      Received received = receive_message(socket, options_.ranks);
      if (received.what == Received::What::Message) return received.message;
      if (received.what != Received::What::Nothing) return std::nullopt;
      pollfd wait = {socket, POLLIN, 0};
      ::poll(&wait, 1, 50);
    }
    refuse_missing({peer});
  }

  void accept_all() {
    std::vector<core::Fd> visitors;  // connected, not yet introduced
    for (;;) {
      std::vector<int> missing;
      for (const int peer : expected_) {
        if (!known_[peer]) missing.push_back(peer);
      }
      if (missing.empty()) return;
      if (deadline_.passed()) refuse_missing(missing);
      std::vector<pollfd> waits = {{listener_.get(), POLLIN, 0}};
      for (const core::Fd& visitor : visitors) waits.push_back({visitor.get(), POLLIN, 0});
      ::poll(waits.data(), waits.size(), 50);
      if ((waits[0].revents & POLLIN) != 0) {
        core::Fd visitor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (visitor) visitors.push_back(std::move(visitor));
      }
      for (core::Fd& visitor : visitors) introduce(visitor);
      std::erase_if(visitors, [](const core::Fd& visitor) { return !visitor; });
    }
  }

  // Takes a visitor in, or shows it the door; it keeps its place while it has said nothing.
  void introduce(core::Fd& visitor) {
    Received received = receive_message(visitor.get(), options_.ranks);
    if (received.what == Received::What::Nothing) return;
    core::Fd socket = std::exchange(visitor, core::Fd());
    if (received.what != Received::What::Message || received.message.kind != MessageKind::Hello)
      return;
    const Message& theirs = received.message;
    const int peer = static_cast<int>(theirs.rank);
    Message answer = hello();
    answer.kind = MessageKind::Refuse;
    ucred who = {};
    socklen_t length = sizeof(who);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length);
    if (who.uid != ::geteuid()) {
      answer.set_text("another user's process");
    } else if (theirs.run != run_) {
      answer.set_text("it belongs to another run");
    } else if (known_[peer] ||
               std::find(expected_.begin(), expected_.end(), peer) == expected_.end()) {
      answer.set_text("a rank of that number is here already");
    } else {
      answer = hello();
      send_message(socket.get(), answer, -1, deadline_);
      return keep(std::move(socket), peer, theirs.key);
    }
    send_message(socket.get(), answer, -1, deadline_);
  }

  void keep(core::Fd socket, int peer, std::uint64_t start) {
    Peers::Link link;
    ucred who = {};
    socklen_t length = sizeof(who);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length);
    link.pid = who.pid;
    // For a listener these are the credentials at listen(): the same process, unless it forked.
    if (who.pid > 0 && who.pid != ::getpid()) {
      core::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
      // The number may belong to another process by now: its start time tells.
      if (pidfd && start != 0 && process_start(std::to_string(who.pid)) == start)
        link.pidfd = std::move(pidfd);
    }
    link.socket = std::move(socket);
    link.numa = cards_[peer].numa;
    peers_.connect(peer, std::move(link));
    known_[peer] = true;
  }

  Store& store_;
  const WireUpOptions& options_;
  std::uint32_t epoch_;
  std::uint64_t run_;
  core::Deadline deadline_;
  Peers& peers_;
  std::vector<int> expected_;
  std::vector<bool> known_;
  std::vector<Card> cards_;
  core::Fd listener_;
  Card mine_;
};

// Joiners are new to the members, each named once, and small enough numbers.
void check_joiners(const std::vector<int>& members, const std::vector<int>& joiners) {
  if (members.empty() || joiners.empty()) {
    throw std::invalid_argument(
        fmt::format("{} members and {} joiners: a world grows by one rank at least", members.size(),
                    joiners.size()));
  }
  for (const int rank : joiners) {
    if (rank < 0 || rank >= ControlBlock::kMostRanks ||
        std::find(members.begin(), members.end(), rank) != members.end() ||
        std::count(joiners.begin(), joiners.end(), rank) != 1) {
      throw std::invalid_argument(
          fmt::format("rank {} cannot join: members are {}, joiners {}, ranks below {}", rank,
                      fmt::join(members, " "), fmt::join(joiners, " "), ControlBlock::kMostRanks));
    }
  }
}

}  // namespace

void find_peers(Store& store, const WireUpOptions& options, std::uint32_t epoch, Peers& peers,
                const std::vector<int>& call, const std::vector<int>& expect) {
  WireUp(store, options, epoch, peers).run(call, expect);
}

}  // namespace tutti::comm

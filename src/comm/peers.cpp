// Reading what peers send and noticing when they are gone.
#include "comm/peers.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/error.h"

namespace tutti::comm {
namespace {

constexpr core::Seconds kSendPatience(
    5.0);  // a peer that reads nothing that long is as good as gone

}  // namespace

Peers::Peers(int rank, int ranks, std::uint64_t run, std::shared_ptr<MappingCache> mappings)
    : rank_(rank), run_(run), mappings_(std::move(mappings)), peers_(ranks) {}

void Peers::connect(int peer, Link link) {
  if (peer >= size()) peers_.resize(static_cast<std::size_t>(peer) + 1);
  peers_[peer] = Peer();
  peers_[peer].link = std::move(link);
}

void Peers::evict(int peer, const core::Deadline& deadline) {
  Peer& p = peers_[peer];
  drain(peer);
  if (p.left) return;  // it stores nothing any more, and what else its process does is its own
  if (p.link.pidfd) {
    ::syscall(SYS_pidfd_send_signal, p.link.pidfd.get(), SIGKILL, nullptr, 0);
    pollfd end = {p.link.pidfd.get(), POLLIN, 0};
    while (::poll(&end, 1, 20) <= 0) {
      if (deadline.passed()) {
        throw core::RunError(fmt::format(
            "rank {} (pid {}) does not end although it was killed: it may still write into the "
            "memory of the others. Stop the run.",
            peer, p.link.pid));
      }
    }
    lose(peer, "it was evicted");
  }
  if (!p.dead) {
    throw core::RunError(fmt::format(
        "rank {} cannot be evicted: it lives in this process or in another PID namespace, where it "
        "cannot be killed, and it may still write into the memory of the others. Stop the run.",
        peer));
  }
}

void Peers::tell(int peer, Message message, int fd) {
  message.rank = static_cast<std::uint32_t>(rank_);
  message.run = run_;
  const Link& link = peers_[peer].link;
  if (link.socket) send_message(link.socket.get(), message, fd, core::Deadline(kSendPatience));
}

void Peers::tell_all(const Message& message, int fd) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) tell(peer, message, fd);
  }
}

void Peers::lose(int peer, std::string how) {
  Peer& p = peers_[peer];
  if (p.left || p.dead) return;
  p.dead = true;
  p.death = std::move(how);
}

void Peers::drain(int peer) {
  Peer& p = peers_[peer];
  while (p.link.socket && !p.left && !p.dead) {
    Received received = receive_message(p.link.socket.get(), size());
    if (received.what == Received::What::Nothing) return;
    if (received.what == Received::What::Closed) {
      return lose(peer, "its connection closed without a farewell");
    }
    accept_news(peer, received);
  }
}

void Peers::accept_news(int peer, Received& received) {
  Peer& p = peers_[peer];
  const Message& message = received.message;
  if (received.what == Received::What::Garbage || message.run != run_ ||
      message.rank != static_cast<std::uint32_t>(peer)) {
    return lose(peer, "it sent a packet that is no message of this run");
  }
  try {
    switch (message.kind) {
      case MessageKind::Bye:
        p.left = true;
        return;
      case MessageKind::Segment:
        if (message.number != p.segments.size() || !received.fd) break;
        p.segments.push_back(mappings_->map(received.fd.get(), message.bytes));
        return;
      case MessageKind::Group:
        if (!received.fd) break;
        p.groups.push_back({message.key, message.bytes, std::move(received.fd)});
        return;
      case MessageKind::Hello:
      case MessageKind::Refuse:
        break;
    }
  } catch (const core::RunError& error) {
    return lose(peer, error.what());
  }
  lose(peer, "it sent a message out of turn");
}

std::byte* Peers::address(int peer, std::uint16_t segment, std::uint64_t offset,
                          std::uint64_t bytes) {
  Peer& p = peers_[peer];
  if (segment >= p.segments.size()) drain(peer);
  const std::size_t whole = segment < p.segments.size() ? p.segments[segment]->bytes() : 0;
  if (offset > whole || bytes > whole - offset || whole == 0) {
    throw core::PeerError(
        peer, fmt::format("rank {} named bytes [{}, +{}) of segment {} of its arena, which has {} "
                          "bytes: its control memory is damaged",
                          peer, offset, bytes, segment, whole));
  }
  return p.segments[segment]->data() + offset;
}

std::shared_ptr<std::byte> Peers::share(int peer, std::uint16_t segment, std::uint64_t offset,
                                        std::uint64_t bytes) {
  std::byte* const data = address(peer, segment, offset, bytes);
  return {peers_[peer].segments[segment], data};
}

std::shared_ptr<Mapping> Peers::take_group(int creator, std::uint64_t key, std::size_t bytes) {
  drain(creator);
  auto& groups = peers_[creator].groups;
  const auto offer = std::find_if(groups.begin(), groups.end(),
                                  [&](const Offer& o) { return o.key == key && o.bytes == bytes; });
  if (offer == groups.end()) return nullptr;
  const core::Fd fd = std::move(offer->fd);
  groups.erase(offer);
  try {
    return mappings_->map(fd.get(), bytes);
  } catch (const core::RunError& error) {
    throw core::PeerError(
        creator, fmt::format("control memory of a group from rank {}: {}", creator, error.what()));
  }
}

void Peers::look(int wait_ms) {
  std::vector<pollfd> fds;
  std::vector<int> owners;
  for (int peer = 0; peer < size(); ++peer) {
    const Peer& p = peers_[peer];
    if (!p.link.socket || p.left || p.dead) continue;
    fds.push_back({p.link.socket.get(), POLLIN, 0});
    owners.push_back(peer);
    if (!p.link.pidfd) continue;
    fds.push_back({p.link.pidfd.get(), POLLIN, 0});
    owners.push_back(peer);
  }
  if (::poll(fds.data(), fds.size(), wait_ms) < 0) return;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    const int peer = owners[i];
    drain(peer);  // its last words first: a farewell makes the end of the process an orderly one
    // A forked child may keep the connection open: the process itself is what counts.
    if (fds[i].fd == peers_[peer].link.pidfd.get()) lose(peer, "its process ended");
  }
}

}  // namespace tutti::comm

// Send and receive: envelopes in control memory, data in the sender's arena.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/group.h"
#include "comm/operation.h"

namespace tutti::comm {

/// Copies the message into the arena and fills an envelope; done as soon as it has one, so a send
/// waits for its receiver only when all credits of the pair are used up.
class SendOperation final : public Operation {
 public:
  SendOperation(std::shared_ptr<Group> group, ConstBuffer data, int peer, int tag, Label label);
  Progress step() override;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::string signature() const override;
  [[nodiscard]] std::size_t bytes() const override { return data_.bytes(); }

 private:
  ConstBuffer data_;
  int peer_, tag_;
};

/// Takes the oldest message of that sender and tag; of any sender if `peer` is -1.
class RecvOperation final : public Operation {
 public:
  RecvOperation(std::shared_ptr<Group> group, Buffer data, int peer, int tag, Label label);
  Progress step() override;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::string signature() const override;
  [[nodiscard]] std::size_t bytes() const override { return data_.bytes(); }
  [[nodiscard]] int source() const override { return source_; }

 private:
  [[nodiscard]] Envelope* oldest(int peer) const;
  [[nodiscard]] std::vector<int> candidates() const;

  Buffer data_;
  int peer_, tag_;
  int source_ = -1;
};

}  // namespace tutti::comm

// Masks from counters, applied forward and backward.
#include "model/dropout.h"

#include "tensor/products.h"

namespace tutti::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

template <class T>
void fill_row(T* row, std::int64_t channels, core::PhiloxCounter counter, core::PhiloxKey key,
              double p) {
  const auto threshold = static_cast<std::uint32_t>(p * 4294967296.0);
  const T keep = static_cast<T>(1.0 / (1.0 - p));
  for (std::int64_t c = 0; c < channels; c += 4) {
    counter[3] = static_cast<std::uint32_t>(c / 4);
    const core::PhiloxCounter words = core::philox(counter, key);
    for (std::int64_t i = 0; i < 4 && c + i < channels; ++i)
      row[c + i] = words[i] < threshold ? T{0} : keep;
  }
}

// The factors in fp32 where x is bf16, in which 1 / (1 - p) would be off by up to 0.2 %.
at::Tensor times_mask(const at::Tensor& x_nC, const parallel::MicroBatch& batch,
                      const DropoutSite& site, mesh::FlatSlice rows) {
  const at::ScalarType type = x_nC.scalar_type();
  return x_nC.mul(dropout_mask(batch, x_nC.size(1), site, tensor::wide_type(type), rows)).to(type);
}

struct Dropout : Function<Dropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_nC,
                            const parallel::MicroBatch* batch, const DropoutSite& site,
                            mesh::FlatSlice rows) {
    // What the mask depends on is copied: the micro-batch may be gone when backward runs.
    ctx->saved_data["sequence"] = batch->sequence;
    ctx->saved_data["samples"] = batch->samples;
    ctx->saved_data["site"] =
        std::vector<std::int64_t>{site.key[0], site.key[1], site.layer, site.site};
    ctx->saved_data["p"] = site.p;
    ctx->saved_data["first_row"] = rows.first;
    return times_mask(x_nC, *batch, site, rows);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    parallel::MicroBatch batch;
    batch.sequence = ctx->saved_data["sequence"].toInt();
    batch.samples = ctx->saved_data["samples"].toIntVector();
    const std::vector<std::int64_t> where = ctx->saved_data["site"].toIntVector();
    const DropoutSite site{
        .key = {static_cast<std::uint32_t>(where[0]), static_cast<std::uint32_t>(where[1])},
        .p = ctx->saved_data["p"].toDouble(),
        .layer = static_cast<int>(where[2]),
        .site = static_cast<int>(where[3])};
    const mesh::FlatSlice rows{ctx->saved_data["first_row"].toInt(), gy[0].size(0)};
    return {times_mask(gy[0], batch, site, rows), {}, {}, {}};
  }
};

}  // namespace

at::Tensor dropout_mask(const parallel::MicroBatch& batch, std::int64_t channels,
                        const DropoutSite& site, at::ScalarType type, mesh::FlatSlice rows) {
  at::Tensor mask = at::empty({rows.count, channels}, type);
  AT_DISPATCH_FLOATING_TYPES(type, "dropout_mask", [&] {
    auto* factors = mask.data_ptr<scalar_t>();
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row, factors += channels) {
      const auto sample =
          static_cast<std::uint64_t>(batch.samples[static_cast<std::size_t>(row / batch.sequence)]);
      // 44 bits of sample, 12 of layer, 8 of site; a head's attention weights have the channels
      // of their own site.
      const core::PhiloxCounter counter = {static_cast<std::uint32_t>(sample),
                                           static_cast<std::uint32_t>(sample >> 32) << 20 |
                                               (static_cast<std::uint32_t>(site.layer + 1) & 0xFFFU)
                                                   << 8 |
                                               (static_cast<std::uint32_t>(site.site) & 0xFFU),
                                           static_cast<std::uint32_t>(row % batch.sequence), 0};
      fill_row(factors, channels, counter, site.key, site.p);
    }
  });
  return mask;
}

at::Tensor dropout_mask(const parallel::MicroBatch& batch, std::int64_t channels,
                        const DropoutSite& site, at::ScalarType type) {
  const auto sequences = static_cast<std::int64_t>(batch.samples.size());
  return dropout_mask(batch, channels, site, type, {0, sequences * batch.sequence});
}

at::Tensor dropout(const at::Tensor& x_nC, const parallel::MicroBatch& batch,
                   const DropoutSite& site, mesh::FlatSlice rows) {
  if (site.p == 0 || !at::GradMode::is_enabled()) return x_nC;
  return Dropout::apply(x_nC, &batch, site, rows);
}

}  // namespace tutti::model

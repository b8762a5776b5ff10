// The built-in networks, layer by layer, as published by their authors.

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "bench/training/model.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double flops = 10e12;  // per second, of a 2017 accelerator in float32
constexpr int images = 32;       // per batch
constexpr int tokens = 1024;     // per batch

class network {
public:
    explicit network(std::string_view name) : made_{std::string(name), {}} {}

    /// @param products multiplications and additions of the whole batch
    void weight(const std::string& name, std::int64_t count, double products = 0) {
        const double forward = 2 * products / flops;
        made_.layers.push_back({name, count, forward, 2 * forward});
    }
    /// Adds a scale and a shift, or a weight and a bias.
    void norm(const std::string& name, std::int64_t count) {
        weight(name + ".weight", count);
        weight(name + ".bias", count);
    }
    /// @param size side of the square output
    void convolution(const std::string& name, std::int64_t in, std::int64_t out, int kernel, int size) {
        const std::int64_t count = in * out * kernel * kernel;
        weight(name + ".weight", count, static_cast<double>(count) * size * size * images);
    }
    void linear(const std::string& name, std::int64_t in, std::int64_t out, int rows) {
        weight(name + ".weight", in * out, static_cast<double>(in * out) * rows);
        weight(name + ".bias", out);
    }
    training_model made() && { return std::move(made_); }

private:
    training_model made_;
};

// He et al., Deep Residual Learning for Image Recognition; strides are in the 3 x 3 convolutions.
training_model resnet50(std::string_view name) {
    constexpr std::array blocks{3, 4, 6, 3};
    network n(name);
    n.convolution("conv1", 3, 64, 7, 112);
    n.norm("bn1", 64);
    std::int64_t in = 64;
    int size = 56;
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
        const std::int64_t planes = std::int64_t{64} << stage;
        for (int b = 0; b < blocks[stage]; ++b) {
            const std::string block = fmt::format("layer{}.{}", stage + 1, b);
            n.convolution(block + ".conv1", in, planes, 1, size);
            n.norm(block + ".bn1", planes);
            if (stage > 0 && b == 0) size /= 2;
            n.convolution(block + ".conv2", planes, planes, 3, size);
            n.norm(block + ".bn2", planes);
            n.convolution(block + ".conv3", planes, 4 * planes, 1, size);
            n.norm(block + ".bn3", 4 * planes);
            if (b == 0) {
                n.convolution(block + ".downsample.0", in, 4 * planes, 1, size);
                n.norm(block + ".downsample.1", 4 * planes);
            }
            in = 4 * planes;
        }
    }
    n.linear("fc", in, 1000, images);
    return std::move(n).made();
}

// Devlin et al., BERT: 24 layers of 1024, with the pooler.
training_model bert_large(std::string_view name) {
    constexpr std::int64_t width = 1024;
    network n(name);
    n.weight("embeddings.word", 30522 * width);
    n.weight("embeddings.position", 512 * width);
    n.weight("embeddings.type", 2 * width);
    n.norm("embeddings.norm", width);
    for (int l = 0; l < 24; ++l) {
        const std::string block = fmt::format("layer.{}", l);
        for (const char* what : {".query", ".key", ".value", ".attention"})
            n.linear(block + what, width, width, tokens);
        n.norm(block + ".attention.norm", width);
        n.linear(block + ".intermediate", width, 4 * width, tokens);
        n.linear(block + ".output", 4 * width, width, tokens);
        n.norm(block + ".output.norm", width);
    }
    n.linear("pooler", width, width, 1);
    return std::move(n).made();
}

// Radford et al., Language Models are Unsupervised Multitask Learners: the smallest one, 12 layers of 768. Its output
// layer shares the weights of the embedding, and computes at the end of the forward pass.
training_model gpt2(std::string_view name) {
    constexpr std::int64_t width = 768, words = 50257;
    network n(name);
    n.weight("wte", words * width);
    n.weight("wpe", 1024 * width);
    for (int l = 0; l < 12; ++l) {
        const std::string block = fmt::format("h.{}", l);
        n.norm(block + ".ln_1", width);
        n.linear(block + ".attn.c_attn", width, 3 * width, tokens);
        n.linear(block + ".attn.c_proj", width, width, tokens);
        n.norm(block + ".ln_2", width);
        n.linear(block + ".mlp.c_fc", width, 4 * width, tokens);
        n.linear(block + ".mlp.c_proj", 4 * width, width, tokens);
    }
    n.weight("ln_f.weight", width);
    n.weight("ln_f.bias", width, static_cast<double>(words * width) * tokens);
    return std::move(n).made();
}

struct row_of_network {
    std::string_view name;
    training_model (*make)(std::string_view name);
};
constexpr std::array<row_of_network, 3> networks{{{"resnet50", resnet50}, {"bert-large", bert_large}, {"gpt2", gpt2}}};
constexpr std::array<std::string_view, networks.size()> network_names{networks[0].name, networks[1].name,
                                                                      networks[2].name};

}  // namespace

std::span<const std::string_view> built_in_models() noexcept { return network_names; }

training_model built_in_model(std::string_view name) {
    return std::find_if(networks.begin(), networks.end(), [&](const auto& n) { return n.name == name; })->make(name);
}

}  // namespace terrace::detail::bench

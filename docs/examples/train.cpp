// Trains a small network on handwritten digits: each rank on its share of every batch, and rank 0 once more by itself
// on whole batches. Both have the same loss in every step, to rounding. With TERRACE_REPRODUCIBLE=on rank 0 adds up by
// itself what each rank computes, and they are equal to the bit. With TERRACE_WIRE=on gradients cross links in the wire
// types of the plan, what is rounded away is fed back, and the loss of the last step is within 1 %. Ranks are threads
// of this process.
//
//   train PLAN DIGITS.CSV [STEPS [EVERY]]      200 steps, and each 20th is printed
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <terrace/gradients.hpp>
#include <terrace/loopback.hpp>

namespace {

constexpr std::size_t pixels = 64, hidden = 32, classes = 10, batch = 250, held_back = 297;
constexpr double learning_rate = 0.5;

struct image {
    std::array<double, pixels> pixel;  // 0 to 1
    std::size_t digit;
};

std::vector<image> read_digits(const std::string& file) {
    std::ifstream in(file);
    std::vector<image> images;
    image next{};
    char comma;
    while (in) {
        for (double& x : next.pixel) {
            in >> x >> comma;
            x /= 16;
        }
        if (in >> next.digit) images.push_back(next);
    }
    if (images.size() <= batch + held_back) throw std::runtime_error(file + ": cannot be read, or has too few images");
    return images;
}

// Parameters, or their gradients: weights and biases of two layers.
enum { weight1, bias1, weight2, bias2, tensors };
constexpr std::array<std::size_t, tensors> sizes{hidden * pixels, hidden, classes* hidden, classes};
using tensor_list = std::array<std::span<double>, tensors>;

struct tensor_memory {
    std::array<std::vector<double>, tensors> memory;
    tensor_list tensor;

    tensor_memory() {
        for (std::size_t t = 0; t < tensors; ++t) {
            memory[t].resize(sizes[t]);
            tensor[t] = memory[t];
        }
    }
    tensor_memory(const tensor_memory&) = delete;
    tensor_memory& operator=(const tensor_memory&) = delete;
};

struct network : tensor_memory {
    network() {
        std::uint64_t random = 1;
        for (const std::span<double>& each : tensor)
            for (double& x : each) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                x = (static_cast<double>(random >> 33) / 0x1p31 - 0.5) / 2;
            }
    }

    void forward(const image& in, std::span<double> h, std::span<double> probability) const {
        for (std::size_t j = 0; j < hidden; ++j) {
            double sum = tensor[bias1][j];
            for (std::size_t i = 0; i < pixels; ++i) sum += tensor[weight1][j * pixels + i] * in.pixel[i];
            h[j] = std::tanh(sum);
        }
        double all = 0;
        for (std::size_t k = 0; k < classes; ++k) {
            double sum = tensor[bias2][k];
            for (std::size_t j = 0; j < hidden; ++j) sum += tensor[weight2][k * hidden + j] * h[j];
            all += probability[k] = std::exp(sum);
        }
        for (double& p : probability) p /= all;
    }

    // Returns the sum of the losses, and leaves the mean gradients. The last layer's come first, and `ready` is told.
    double backward(std::span<const image> in, const tensor_list& gradient,
                    const std::function<void(int)>& ready) const {
        for (const std::span<double>& g : gradient) std::fill(g.begin(), g.end(), 0);
        std::vector<double> h(in.size() * hidden), slope(in.size() * classes);
        const double scale = 1 / static_cast<double>(in.size());
        double loss = 0;
        for (std::size_t n = 0; n < in.size(); ++n) {
            const std::span<double> mine = std::span(slope).subspan(n * classes, classes);
            forward(in[n], std::span(h).subspan(n * hidden, hidden), mine);
            loss -= std::log(mine[in[n].digit]);
            mine[in[n].digit] -= 1;
            for (std::size_t k = 0; k < classes; ++k) {
                gradient[bias2][k] += scale * mine[k];
                for (std::size_t j = 0; j < hidden; ++j)
                    gradient[weight2][k * hidden + j] += scale * mine[k] * h[n * hidden + j];
            }
        }
        ready(bias2);
        ready(weight2);
        for (std::size_t n = 0; n < in.size(); ++n)
            for (std::size_t j = 0; j < hidden; ++j) {
                double sum = 0;
                for (std::size_t k = 0; k < classes; ++k)
                    sum += slope[n * classes + k] * tensor[weight2][k * hidden + j];
                sum *= scale * (1 - h[n * hidden + j] * h[n * hidden + j]);
                gradient[bias1][j] += sum;
                for (std::size_t i = 0; i < pixels; ++i) gradient[weight1][j * pixels + i] += sum * in[n].pixel[i];
            }
        ready(bias1);
        ready(weight1);
        return loss;
    }

    void step(const tensor_list& gradient) {
        for (std::size_t t = 0; t < tensors; ++t)
            for (std::size_t i = 0; i < sizes[t]; ++i) tensor[t][i] -= learning_rate * gradient[t][i];
    }

    double accuracy(std::span<const image> in) const {
        std::array<double, hidden> h{};
        std::array<double, classes> p{};
        std::ptrdiff_t right = 0;
        for (const image& each : in) {
            forward(each, h, p);
            right += std::max_element(p.begin(), p.end()) - p.begin() == static_cast<std::ptrdiff_t>(each.digit);
        }
        return static_cast<double>(right) / static_cast<double>(in.size());
    }
};

// The images of a batch that a rank has.
std::span<const image> share(std::span<const image> whole, std::size_t rank, std::size_t ranks) {
    const std::size_t begin = whole.size() * rank / ranks, end = whole.size() * (rank + 1) / ranks;
    return whole.subspan(begin, end - begin);
}

// Rank 0 alone, on whole batches.
struct local_training {
    network net;
    tensor_memory gradient;

    double step(std::span<const image> in) {
        const double loss = net.backward(in, gradient.tensor, [](int) {}) / static_cast<double>(in.size());
        net.step(gradient.tensor);
        return loss;
    }
    // Computes what each rank computes, and adds it up by the tree of options::reproducible.
    double step_by_shares(std::span<const image> in, std::size_t ranks) {
        const double loss = add_shares(in, ranks, 0, ranks, gradient.tensor) / static_cast<double>(in.size());
        net.step(gradient.tensor);
        return loss;
    }

private:
    // Of ranks begin ... end - 1. Returns the sum of their losses.
    double add_shares(std::span<const image> in, std::size_t ranks, std::size_t begin, std::size_t end,
                      const tensor_list& sum) const {
        if (end - begin == 1) {
            const std::span<const image> mine = share(in, begin, ranks);
            const double loss = net.backward(mine, sum, [](int) {});
            const double weight = static_cast<double>(mine.size()) / static_cast<double>(in.size());
            for (const std::span<double>& g : sum)
                for (double& x : g) x *= weight;
            return loss;
        }
        std::size_t left = 1;
        while (2 * left < end - begin) left *= 2;
        const tensor_memory right;
        const double loss = add_shares(in, ranks, begin, begin + left, sum);
        const double right_loss = add_shares(in, ranks, begin + left, end, right.tensor);
        for (std::size_t t = 0; t < tensors; ++t)
            for (std::size_t n = 0; n < sizes[t]; ++n) sum[t][n] += right.tensor[t][n];
        return loss + right_loss;
    }
};

// Returns the greatest difference of the two losses, relative to the loss; where gradients are rounded, that of the
// last step.
double train(terrace::communicator& comm, const std::vector<image>& images, int steps, int every,
             const terrace::options& how) {
    network net;
    local_training alone;
    terrace::gradient_options o;
    o.weighted = true;  // the shares of a batch may differ by an image
    o.first_bucket_bytes = 4096;
    o.error_feedback = how.rounds_on_wire;
    std::vector<terrace::gradient_parameter> parameters;
    std::vector<terrace::state_tensor> state;
    const std::array names{"layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias"};
    for (std::size_t t = 0; t < tensors; ++t) {
        const auto count = static_cast<std::int64_t>(sizes[t]);
        parameters.push_back({names[t], count, terrace::element_type::float64});
        state.push_back({names[t], net.tensor[t].data(), count, terrace::element_type::float64});
    }
    terrace::gradient_reducer reducer(comm, parameters, o);
    reducer.broadcast(state);

    const std::span<const image> known = std::span(images).first(images.size() - held_back);
    const std::size_t batches = known.size() / batch, rank = static_cast<std::size_t>(comm.rank()),
                      ranks = static_cast<std::size_t>(comm.size());
    double worst = 0;
    for (int s = 0; s < steps; ++s) {
        const std::span<const image> whole = known.subspan(static_cast<std::size_t>(s) % batches * batch, batch);
        const std::span<const image> mine = share(whole, rank, ranks);
        tensor_list gradient;  // in the buckets, which may be others than in the step before
        for (int t = 0; t < tensors; ++t) gradient[static_cast<std::size_t>(t)] = reducer.gradient<double>(t);
        reducer.set_weight(static_cast<double>(mine.size()));
        double loss = net.backward(mine, gradient, [&](int parameter) { reducer.ready(parameter); });
        reducer.finish();
        for (int t = 0; t < tensors; ++t) gradient[static_cast<std::size_t>(t)] = reducer.gradient<double>(t);
        net.step(gradient);
        comm.allreduce(std::span(&loss, 1));
        loss /= batch;
        if (comm.rank() != 0) continue;
        const double expected = how.reproducible ? alone.step_by_shares(whole, ranks) : alone.step(whole);
        const double difference = std::abs(loss - expected) / expected;
        worst = how.rounds_on_wire ? difference : std::max(worst, difference);
        if (s % every == 0 || s == steps - 1)
            std::printf("step %3d: loss %.9f, of one rank alone %.9f, off by %.1e\n", s, loss, expected, difference);
    }
    if (comm.rank() == 0)
        std::printf("%d ranks: %.1f %% of the held back digits right; losses differ by %s%.1e\n", comm.size(),
                    100 * net.accuracy(std::span(images).last(held_back)), how.rounds_on_wire ? "" : "at most ", worst);
    return worst;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return std::fprintf(stderr, "usage: train PLAN DIGITS.CSV [STEPS [EVERY]]\n"), 2;
    try {
        const std::vector<image> images = read_digits(argv[2]);
        double worst = 0;
        const terrace::options o = terrace::options::from_environment();
        const auto body = [&](terrace::communicator& comm) {
            const int steps = argc > 3 ? std::atoi(argv[3]) : 200, every = argc > 4 ? std::atoi(argv[4]) : 20;
            const double mine = train(comm, images, steps, std::max(1, every), o);
            if (comm.rank() == 0) worst = mine;
        };
        terrace::loopback::run(terrace::plan::load(argv[1]), body, o);
        return worst <= (o.reproducible ? 0 : o.rounds_on_wire ? 0.01 : 1e-6) ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train: %s\n", e.what());
        return 2;
    }
}

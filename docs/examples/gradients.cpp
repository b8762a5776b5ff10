// Reduces the gradients of two layers over the ranks of a plan, which are threads of this process.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <terrace/gradients.hpp>
#include <terrace/loopback.hpp>

static void train(terrace::communicator& comm) {
    std::vector<float> weights(1000, static_cast<float>(comm.rank())), own_gradient(10);
    terrace::gradient_reducer reducer(comm, {{"layer1.weight", 1000, terrace::element_type::float32},
                                             {"layer2.bias", 10, terrace::element_type::float32, own_gradient.data()}});
    const std::vector<terrace::state_tensor> state{
        {"layer1.weight", weights.data(), 1000, terrace::element_type::float32}};
    reducer.broadcast(state);  // all ranks begin with the weights of rank 0

    for (int step = 0; step < 3; ++step) {
        std::fill(own_gradient.begin(), own_gradient.end(), static_cast<float>(comm.rank()));  // backward of layer 2
        reducer.ready(1);
        std::span<float> in_bucket = reducer.gradient<float>(0);
        std::fill(in_bucket.begin(), in_bucket.end(), 1.0f);  // backward of layer 1, while layer 2 is reduced
        reducer.ready(0);
        reducer.finish();
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.1f * in_bucket[i];
    }
    if (comm.rank() == 0)
        std::printf("%d ranks, %d buckets: weight %g, mean gradient of the bias %g\n", comm.size(), reducer.buckets(),
                    weights[0], own_gradient[0]);
}

int main(int argc, char** argv) {
    try {
        terrace::loopback::run(terrace::plan::load(argc > 1 ? argv[1] : "plan.yaml"), train,
                               terrace::options::from_environment());
    } catch (const terrace::error& e) {
        std::fprintf(stderr, "terrace: %s\n", e.what());
        return 1;
    }
}

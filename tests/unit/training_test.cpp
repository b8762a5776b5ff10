// terrace-bench --training without measurements: models, the bound, the command line.

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "bench/modes.hpp"
#include "bench/training/model.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::bench::training_test {

namespace {

TEST(training_model, networks_are_as_published) {
    const struct {
        const char* name;
        std::size_t gradients;
        std::int64_t parameters;
    } published[] = {{"resnet50", 161, 25'557'032}, {"bert-large", 391, 335'141'888}, {"gpt2", 148, 124'439'808}};
    ASSERT_EQ(std::size(published), built_in_models().size());
    for (const auto& each : published) {
        const training_model m = built_in_model(each.name);
        EXPECT_EQ(m.name, each.name);
        EXPECT_EQ(m.layers.size(), each.gradients) << each.name;
        EXPECT_EQ(m.parameters(), each.parameters) << each.name;
    }
}

// 4.09 G multiplications and as many additions per image, 32 images, forward and twice as many backward, at 10 TFLOP/s.
TEST(training_model, computing_takes_what_multiplications_take) {
    EXPECT_NEAR(built_in_model("resnet50").compute(), 3 * 2 * 4.09e9 * 32 / 10e12, 0.001);
}

TEST(training_model, scales_bytes_and_times) {
    const training_model m = scaled({"m", {{"a", 100, 0.4, 0.8}, {"b", 1, 0, 0}}}, 0.25, 8);
    EXPECT_EQ(m.layers[0].parameters, 25);
    EXPECT_DOUBLE_EQ(m.layers[0].forward, 0.8);
    EXPECT_DOUBLE_EQ(m.layers[0].backward, 1.6);
    EXPECT_EQ(m.layers[1].parameters, 1);
}

class model_file : public testing::Test {
protected:
    model_file() : file_(std::filesystem::path(testing::TempDir()) / "tiny.model") {}
    ~model_file() override { std::filesystem::remove(file_); }

    training_model read(const std::string& text) {
        std::ofstream(file_) << text;
        return read_model(file_);
    }
    std::string refusal(const std::string& text) {
        return refusal_of<input_error>([&] { read(text); });
    }

    std::filesystem::path file_;
};

TEST_F(model_file, is_a_list_of_layers) {
    const training_model m = read("# a comment\nconv1, 9408, 0.5, 1\n\n fc , 10,0 , 0.25 # the last\n");
    EXPECT_EQ(m.name, "tiny");
    ASSERT_EQ(m.layers.size(), 2u);
    EXPECT_EQ(m.layers[0].name, "conv1");
    EXPECT_EQ(m.layers[0].parameters, 9408);
    EXPECT_DOUBLE_EQ(m.layers[0].backward, 0.001);
    EXPECT_EQ(m.layers[1].name, "fc");
    EXPECT_DOUBLE_EQ(m.layers[1].backward, 0.00025);
}

TEST_F(model_file, names_the_line_that_is_wrong) {
    for (const char* line : {"conv1, 9408, 0.5", "conv1, -1, 1, 1", "conv1, 0, 1, 1", "conv1, 5, x, 1", "a, 1, 1, inf"})
        EXPECT_NE(refusal("fc, 10, 0, 0\n" + std::string(line)).find("tiny.model:2:1: no layer; write:"),
                  std::string::npos)
            << line;
    EXPECT_NE(refusal("# nothing\n").find("has no layers"), std::string::npos);
}

TEST(training_bound, what_is_not_ready_travels_afterwards) {
    // Backward: c is ready at 4, b at 6, a at 7.
    training_model m{"m", {{"a", 10, 1, 1}, {"b", 10, 1, 2}, {"c", 10, 1, 1}}};
    const auto at_rate = [](double rate) {
        return [rate](std::int64_t bytes) { return static_cast<double>(bytes) / rate; };
    };
    EXPECT_DOUBLE_EQ(iteration_bound(m, 1, at_rate(1000)), 7.01);  // a alone, after all computing
    EXPECT_DOUBLE_EQ(iteration_bound(m, 1, at_rate(10)), 8);       // a after 7, or a and b after 6
    EXPECT_DOUBLE_EQ(iteration_bound(m, 1, at_rate(1)), 4 + 30);   // all after 4
    EXPECT_DOUBLE_EQ(iteration_bound(m, 2, at_rate(1)), 4 + 60);
    EXPECT_DOUBLE_EQ(iteration_bound(m, 1, [](auto) { return 0.0; }), 7);
}

training_settings training_parsed(std::vector<const char*> words) {
    words.insert(words.begin(), {"terrace-bench", "--training", "resnet50", "--plan", "p.yaml"});
    return std::get<training_settings>(parse_training_settings(static_cast<int>(words.size()), words.data()));
}

TEST(training_settings, lists_make_rows) {
    const training_settings usual = training_parsed({});
    EXPECT_EQ(usual.buckets.size(), 9u);
    EXPECT_EQ(usual.buckets.back(), training_settings::automatic);
    const training_settings s =
        training_parsed({"--buckets", "0,25M,all", "--overlap", "on,off", "--every", "1,8", "--communicators", "1,3,5",
                         "--scale", "1/4", "--slower", "8", "--algorithms", "hierarchical,central"});
    EXPECT_EQ(s.buckets, (std::vector<std::int64_t>{0, 25 << 20, training_settings::all}));
    EXPECT_EQ(s.overlaps, (std::vector<bool>{true, false}));
    EXPECT_EQ(s.every, (std::vector<int>{1, 8}));
    EXPECT_EQ(s.communicators, (std::vector<int>{1, 3, 5}));
    EXPECT_DOUBLE_EQ(s.scale, 0.25);
    EXPECT_DOUBLE_EQ(s.slower, 8);
    EXPECT_EQ(s.algorithms, (std::vector<std::string>{"hierarchical", "central"}));
}

TEST(training_settings, refuse_what_means_nothing) {
    const auto refusal = [](std::vector<const char*> words) {
        words.insert(words.begin(), {"terrace-bench", "--training"});
        return std::get<answer>(parse_training_settings(static_cast<int>(words.size()), words.data())).text;
    };
    EXPECT_NE(refusal({"alexnet", "--plan", "p"}).find("give a file of layers, or one of resnet50, bert-large"),
              std::string::npos);
    for (const char* ratio : {"0", "1/0", "-1", "x", "1/4x", "1/"})
        EXPECT_NE(refusal({"gpt2", "--plan", "p", "--scale", ratio}).find("is no ratio above 0"), std::string::npos)
            << ratio;
    EXPECT_NE(refusal({"gpt2", "--plan", "p", "--buckets", "25M,some"}).find("some is no size of a bucket"),
              std::string::npos);
    EXPECT_NE(refusal({"--help"}).find("Examples:"), std::string::npos);
    EXPECT_NE(refusal({"gpt2", "--plan", "p", "--algorithms", "mpi"}).find("mpi reduces no gradients"),
              std::string::npos);
}

}  // namespace

}  // namespace terrace::detail::bench::training_test

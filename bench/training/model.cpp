#include "bench/training/model.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace::detail::bench {

namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blank = " \t\r";
    const std::size_t begin = text.find_first_not_of(blank);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) return {};
    return value;
}

model_layer layer_of(std::string_view line, const std::string& file, int number) {
    std::vector<std::string_view> fields;
    for (std::size_t begin = 0; begin <= line.size();) {
        const std::size_t end = std::min(line.find(',', begin), line.size());
        fields.push_back(trimmed(line.substr(begin, end - begin)));
        begin = end + 1;
    }
    const auto parameters = fields.size() == 4 ? number_in<std::int64_t>(fields[1]) : std::nullopt;
    const auto forward = fields.size() == 4 ? number_in<double>(fields[2]) : std::nullopt;
    const auto backward = fields.size() == 4 ? number_in<double>(fields[3]) : std::nullopt;
    if (!parameters || *parameters == 0 || !forward || !backward || !std::isfinite(*forward + *backward))
        throw input_error(file, number, 1,
                          "no layer; write: name, parameters, forward ms, backward ms, as in: conv1, 9408, 0.4, 0.8");
    return {std::string(fields[0]), *parameters, *forward / 1e3, *backward / 1e3};
}

}  // namespace

std::int64_t training_model::parameters() const {
    std::int64_t sum = 0;
    for (const model_layer& l : layers) sum += l.parameters;
    return sum;
}

double training_model::compute() const {
    double sum = 0;
    for (const model_layer& l : layers) sum += l.forward + l.backward;
    return sum;
}

training_model read_model(const std::filesystem::path& file) {
    std::ifstream in(file);
    if (!in) throw input_error(file.string(), 0, 0, "cannot be read; give a file of layers, or a model's name");
    training_model m{file.stem().string(), {}};
    std::string line;
    for (int number = 1; std::getline(in, line); ++number)
        if (const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#'))); !text.empty())
            m.layers.push_back(layer_of(text, file.string(), number));
    if (m.layers.empty()) throw input_error(file.string(), 0, 0, "has no layers");
    return m;
}

training_model scaled(training_model m, double scale, double slower) {
    for (model_layer& l : m.layers) {
        l.parameters = std::max<std::int64_t>(1, std::llround(static_cast<double>(l.parameters) * scale));
        l.forward *= scale * slower;
        l.backward *= scale * slower;
    }
    return m;
}

}  // namespace terrace::detail::bench

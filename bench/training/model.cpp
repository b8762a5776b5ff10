#include "bench/training/model.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <terrace/error.hpp>

#include "base/text_parts.hpp"

namespace terrace::detail::bench {

namespace {

model_layer layer_of(std::string_view line, const std::string& file, int number) {
    std::vector<std::string_view> fields = split_at(',', line);
    fields.resize(std::max<std::size_t>(fields.size(), 4));
    for (std::string_view& field : fields) field = trimmed(field);
    const auto parameters = as_number<std::int64_t>(fields[1]);
    const auto forward = as_number<double>(fields[2]), backward = as_number<double>(fields[3]);
    const auto is_time = [](const auto& ms) { return ms && *ms >= 0 && std::isfinite(*ms); };
    if (fields.size() > 4 || !parameters || *parameters < 1 || !is_time(forward) || !is_time(backward))
        throw input_error(file, number, 1,
                          "no layer; write: name, parameters, forward ms, backward ms, as in: conv1, 9408, 0.4, 0.8");
    return {std::string(fields[0]), *parameters, *forward / 1e3, *backward / 1e3};
}

}  // namespace

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

double iteration_bound(const training_model& m, std::int64_t element,
                       const std::function<double(std::int64_t)>& limit) {
    // From the gradient that is ready last, that of the first layer, to the one that is ready first.
    double ready = m.compute(), bound = ready;
    std::int64_t bytes = 0;
    for (const model_layer& l : m.layers) {
        bytes += l.parameters * element;
        bound = std::max(bound, ready + limit(bytes));
        ready -= l.backward;
    }
    return bound;
}

}  // namespace terrace::detail::bench

#include "tools/pages.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <terrace/version.hpp>

namespace terrace {

namespace {

using options = std::vector<const CLI::Option*>;

options shown_options(const CLI::App& app) {
    return app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); });
}

std::vector<const CLI::App*> commands(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); });
}

// Text that roff prints as it stands.
std::string roff(const std::string& text) {
    std::string out;
    bool first = true;
    for (const char c : text) {
        if (first && (c == '.' || c == '\'')) out += "\\&";
        if (c == '\\') out += "\\e";
        else if (c == '-') out += "\\-";
        else out += c;
        first = c == '\n';
    }
    return out;
}

std::string value_name(const CLI::Option& o) {
    if (o.get_items_expected_max() == 0 || o.get_positional()) return "";
    const std::string type = o.get_type_name();  // and, behind a colon, what is checked
    return " " + type.substr(0, type.find(':'));
}

std::string synopsis(const CLI::App& app, const std::string& name) {
    std::string text = fmt::format(".B {}\n", roff(name));
    const options all = shown_options(app);
    for (const CLI::Option* o : all)
        if (!o->get_positional() && o->get_required())
            text += fmt::format("{}{}\n", roff(o->get_name()), roff(value_name(*o)));
    text += "[OPTIONS]\n";
    for (const CLI::Option* o : all)
        if (o->get_positional()) text += roff(o->get_name()) + "\n";
    if (app.get_require_subcommand_min() > 0) text += "COMMAND ...\n";
    return text;
}

std::string option_list(const CLI::App& app) {
    std::string text;
    for (const CLI::Option* o : shown_options(app)) {
        std::string name = o->get_positional() ? o->get_name() : o->get_name(false, true);
        for (std::size_t i = 0; (i = name.find(',', i)) != name.npos; i += 2) name.insert(i + 1, " ");
        const std::string usual = o->get_default_str();
        text += fmt::format(".TP\n.B {}\n{}{}\n", roff(name + value_name(*o)), roff(o->get_description()),
                            usual.empty() ? "" : roff(fmt::format(" (default: {})", usual)));
    }
    return text;
}

std::string verbatim(const std::string& text) { return text.empty() ? "" : ".PP\n.nf\n" + roff(text) + "\n.fi\n"; }

std::string joined_names(const std::vector<const CLI::App*>& apps, const char* separator) {
    std::vector<std::string> names;
    for (const CLI::App* a : apps) names.push_back(a->get_name());
    return fmt::format("{}", fmt::join(names, separator));
}

std::string option_words(const CLI::App& app) {
    std::vector<std::string> words;
    for (const CLI::Option* o : shown_options(app)) {
        for (const std::string& name : o->get_snames()) words.push_back("-" + name);
        for (const std::string& name : o->get_lnames()) words.push_back("--" + name);
    }
    for (const CLI::App* command : commands(app)) words.push_back(command->get_name());  // some look like options
    return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::string man_page(const CLI::App& app) {
    const std::string name = app.get_name(), about = app.get_description();
    std::string title = name;
    std::transform(title.begin(), title.end(), title.begin(), [](char c) { return 'a' <= c && c <= 'z' ? c - 32 : c; });
    std::string text = fmt::format(".TH {} 1 \"\" \"Terrace {}\" \"User Commands\"\n", roff(title), version());
    text += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(about.substr(0, about.find('\n'))));
    text += ".SH SYNOPSIS\n" + synopsis(app, name);
    text += ".SH DESCRIPTION\n" + roff(about) + "\n";
    text += ".SH OPTIONS\n" + option_list(app);
    if (!commands(app).empty()) text += ".SH COMMANDS\n";
    for (const CLI::App* command : commands(app)) {
        const std::string full = name + " " + command->get_name();
        text +=
            fmt::format(".SS {}\n{}.PP\n{}\n", roff(full), synopsis(*command, full), roff(command->get_description()));
        text += option_list(*command) + verbatim(command->get_footer());
    }
    text += ".SH NOTES\n" + verbatim(app.get_footer());
    return text;
}

std::string bash_completion(const CLI::App& app) {
    const std::vector<const CLI::App*> subcommands = commands(app);
    std::string function = "_" + app.get_name();
    std::replace(function.begin(), function.end(), '-', '_');
    std::string text = fmt::format("{}() {{\n    local word=${{COMP_WORDS[COMP_CWORD]}} options='{}' commands='{}' i\n",
                                   function, option_words(app), joined_names(subcommands, " "));
    if (!subcommands.empty()) {
        text += "    for ((i = 1; i < COMP_CWORD; ++i)); do\n        case ${COMP_WORDS[i]} in\n";
        for (const CLI::App* a : subcommands)
            text += fmt::format("            {}) options='{}' commands= ;;\n", a->get_name(), option_words(*a));
        text += "        esac\n    done\n";
    }
    return text + fmt::format(
                      "    [[ $word == -* ]] || options=$commands\n"
                      "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n}}\n"
                      "complete -o default -F {} {}\n",
                      function, app.get_name());
}

void add_generate_option(CLI::App& app) {
    const auto print = [&app](const std::string& what) {
        throw CLI::CallForVersion(what == "man" ? man_page(app) : bash_completion(app), 0);
    };
    app.add_option_function<std::string>("--generate", print)->check(CLI::IsMember({"man", "bash"}))->group("");
}

}  // namespace terrace

#include "tools/common/pages.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <terrace/version.hpp>

namespace terrace::detail {

namespace {

using options = std::vector<const CLI::Option*>;

options shown_options(const CLI::App& app) {
    return app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); });
}

std::vector<const CLI::App*> commands(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); });
}

std::string value_name(const CLI::Option& o) {
    if (o.get_items_expected_max() == 0 || o.get_positional()) return "";
    const std::string type = o.get_type_name();  // followed by a colon and the check, if any
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

// Returns the option as typed: "-o" and "--output".
std::vector<std::string> spellings(const CLI::Option& o) {
    std::vector<std::string> words;
    for (const std::string& name : o.get_snames()) words.push_back("-" + name);
    for (const std::string& name : o.get_lnames()) words.push_back("--" + name);
    return words;
}

std::string option_words(const CLI::App& app) {
    std::vector<std::string> words;
    for (const CLI::Option* o : shown_options(app)) std::ranges::move(spellings(*o), std::back_inserter(words));
    for (const CLI::App* command : commands(app)) words.push_back(command->get_name());  // some look like options
    return fmt::format("{}", fmt::join(words, " "));
}

// Returns the values that an option accepts, if CLI11 checks a list of them. CLI11 shows the list as TYPE:{a,b,c}.
std::vector<std::string> values_of(const CLI::Option& o) {
    const std::string type = o.get_type_name();
    const std::size_t open = type.find('{'), close = type.rfind('}');
    std::vector<std::string> values;
    if (open == type.npos || close == type.npos || close < open) return values;
    std::istringstream list(type.substr(open + 1, close - open - 1));
    for (std::string value; std::getline(list, value, ',');) values.push_back(value);
    return values;
}

// Returns a case of a bash script for options with a list of values before the cursor. Empty if there are none.
std::string bash_values(const CLI::App& app, const std::string& indent) {
    std::string text;
    for (const CLI::Option* o : shown_options(app))
        if (const auto values = values_of(*o); !values.empty() && !o->get_positional())
            text += fmt::format("{}    {}) values='{}' ;;\n", indent, fmt::join(spellings(*o), "|"),
                                fmt::join(values, " "));
    return text.empty() ? "" : fmt::format("{0}case $before in\n{1}{0}esac\n", indent, text);
}

// Returns a command's options and texts as a manual page (roff), with a section for each subcommand.
std::string man_page(const CLI::App& app) {
    const std::string& name = app.get_name();
    const std::string about = app.get_description();
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

// Returns a script that completes subcommands, options, the values of options with a list of values, and file names.
std::string bash_completion(const CLI::App& app) {
    const std::vector<const CLI::App*> subcommands = commands(app);
    std::vector<std::string> names;
    for (const CLI::App* a : subcommands) names.push_back(a->get_name());
    std::string function = "_" + app.get_name();
    std::replace(function.begin(), function.end(), '-', '_');
    std::string text = fmt::format(
        "{}() {{\n    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
        "    local options='{}' commands='{}' values= i\n",
        function, option_words(app), fmt::join(names, " "));
    text += bash_values(app, "    ");
    if (!subcommands.empty()) {
        text += "    for ((i = 1; i < COMP_CWORD; ++i)); do\n        case ${COMP_WORDS[i]} in\n";
        const std::string indent(16, ' ');
        for (const CLI::App* a : subcommands)
            text += fmt::format("            {0})\n{1}options='{2}' commands=\n{3}{1};;\n", a->get_name(), indent,
                                option_words(*a), bash_values(*a, indent));
        text += "        esac\n    done\n";
    }
    return text + fmt::format(
                      "    [[ -n $values ]] && {{ COMPREPLY=($(compgen -W \"$values\" -- \"$word\")); return; }}\n"
                      "    [[ $word == -* ]] || options=$commands\n"
                      "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n}}\n"
                      "complete -o default -F {} {}\n",
                      function, app.get_name());
}

}  // namespace

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

void add_generate_option(CLI::App& app, const std::map<std::string, page_maker>& others) {
    std::map<std::string, page_maker> makers{{"man", [&app] { return man_page(app); }},
                                             {"bash", [&app] { return bash_completion(app); }}};
    makers.insert(others.begin(), others.end());
    const auto print = [makers](const std::string& what) { throw CLI::CallForVersion(makers.at(what)(), 0); };
    // The option acts at once: from CLI11 2.6 on, a missing subcommand is an error before other options are handled.
    app.add_option_function<std::string>("--generate", print)
        ->trigger_on_parse()
        ->check(CLI::IsMember(makers))
        ->group("");
}

}  // namespace terrace::detail

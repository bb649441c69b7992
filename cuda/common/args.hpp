// Command line: argc and argv in, the program's options filled in; --help prints them, a bad flag ends with exit code 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "check.cuh"

namespace lab {

class Args {
public:
    explicit Args(std::string description) : description_(std::move(description)) {}

    void integer(const char* flag, long long* target, long long least, long long most, const char* help) {
        add(flag, "N", std::to_string(*target), help, [=](const std::string& text) {
            char* end = nullptr;
            errno = 0;
            const long long value = std::strtoll(text.c_str(), &end, 10);
            if (errno != 0 || end == text.c_str() || *end != '\0' || value < least || value > most) {
                fail("%s %s: give a whole number from %lld to %lld", flag, text.c_str(), least, most);
            }
            *target = value;
        });
    }

    void real(const char* flag, double* target, double least, double most, const char* help) {
        char start[32];
        std::snprintf(start, sizeof start, "%g", *target);
        add(flag, "X", start, help, [=](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            if (end == text.c_str() || *end != '\0' || !(value >= least && value <= most)) {
                fail("%s %s: give a number from %g to %g", flag, text.c_str(), least, most);
            }
            *target = value;
        });
    }

    void text(const char* flag, std::string* target, const char* placeholder, const char* help) {
        add(flag, placeholder, *target, help, [=](const std::string& value) { *target = value; });
    }

    // One of several words. The first --variant of a program is what --list prints.
    void choice(const char* flag, std::string* target, std::vector<std::string> words, const char* help) {
        std::string all;
        for (const std::string& word : words) all += (all.empty() ? "" : "|") + word;
        if (std::string(flag) == "--variant") variants_ = words;
        add(flag, all, *target, help, [=](const std::string& value) {
            for (const std::string& word : words) {
                if (word == value) {
                    *target = value;
                    return;
                }
            }
            fail("%s %s: there is no such choice; take one of %s", flag, value.c_str(), all.c_str());
        });
    }

    // Accepts «--flag value» and «--flag=value».
    void parse(int argc, char** argv) const {
        for (int i = 1; i < argc; ++i) {
            std::string flag = argv[i];
            if (flag == "--help" || flag == "-h") help();
            if (flag == "--list") list();
            std::string value;
            const std::size_t equals = flag.find('=');
            const bool joined = equals != std::string::npos;
            if (joined) {
                value = flag.substr(equals + 1);
                flag.resize(equals);
            }
            const Option* option = find(flag);
            if (option == nullptr) fail("%s: no such flag; --help shows them all", flag.c_str());
            if (!joined) {
                if (i + 1 >= argc) fail("%s: a value is missing; --help shows what it takes", flag.c_str());
                value = argv[++i];
            }
            option->set(value);
        }
    }

private:
    struct Option {
        std::string flag, placeholder, start, help;
        std::function<void(const std::string&)> set;
    };

    void add(const char* flag, std::string placeholder, std::string start, const char* help,
             std::function<void(const std::string&)> set) {
        options_.push_back({flag, std::move(placeholder), std::move(start), help, std::move(set)});
    }

    const Option* find(const std::string& flag) const {
        for (const Option& option : options_) {
            if (option.flag == flag) return &option;
        }
        return nullptr;
    }

    [[noreturn]] void help() const {
        std::printf("usage: %s [flags]\n\n%s\n\nflags:\n", program_name, description_.c_str());
        for (const Option& option : options_) {
            std::printf("  %s %s\n      %s", option.flag.c_str(), option.placeholder.c_str(), option.help.c_str());
            if (!option.start.empty()) std::printf(" (default %s)", option.start.c_str());
            std::printf("\n");
        }
        std::printf("  --list\n      print the variants, one a line, and stop\n  --help\n      print this and stop\n");
        std::exit(0);
    }

    [[noreturn]] void list() const {
        for (const std::string& variant : variants_) std::printf("%s\n", variant.c_str());
        std::exit(0);
    }

    std::string description_;
    std::vector<std::string> variants_;
    std::vector<Option> options_;
};

}  // namespace lab

// Records: numbers, texts, lists and checks in, one JSON file out; the same shape for every program of the lab.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.cuh"

namespace lab {

inline std::string json_text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
            out += escaped;
        } else {
            out += c;
        }
    }
    return out + "\"";
}

// JSON knows neither NaN nor infinity: both become null.
inline std::string json_number(double value) {
    if (!std::isfinite(value)) return "null";
    char text[32];
    std::snprintf(text, sizeof text, "%.7g", value);
    return text;
}

// An object whose members keep the order they were added in.
class JsonObject {
public:
    template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
    JsonObject& add(const std::string& name, Number value) {
        if constexpr (std::is_same_v<Number, bool>) return raw(name, value ? "true" : "false");
        else if constexpr (std::is_integral_v<Number>) return raw(name, std::to_string(value));
        else return raw(name, json_number(value));
    }
    JsonObject& add(const std::string& name, const std::string& value) { return raw(name, json_text(value)); }
    JsonObject& add(const std::string& name, const char* value) { return raw(name, json_text(value)); }
    JsonObject& add(const std::string& name, const std::vector<double>& values) {
        std::string list;
        for (const double value : values) list += (list.empty() ? "" : ", ") + json_number(value);
        return raw(name, "[" + list + "]");
    }
    JsonObject& add(const std::string& name, const JsonObject& object) { return raw(name, object.str()); }

    std::string str() const {
        std::string out;
        for (const auto& [name, value] : members_) out += (out.empty() ? "" : ", ") + json_text(name) + ": " + value;
        return "{" + out + "}";
    }

private:
    JsonObject& raw(const std::string& name, std::string value) {
        members_.emplace_back(name, std::move(value));
        return *this;
    }
    std::vector<std::pair<std::string, std::string>> members_;
};

// What a program says about its own run.
struct Record {
    std::string program, variant;
    JsonObject parameters, results, checks, gpu;
    bool passed = true;

    void check(const std::string& name, bool ok, const std::string& detail) {
        checks.add(name, JsonObject().add("passed", ok).add("detail", detail));
        passed = passed && ok;
        if (!ok) std::fprintf(stderr, "%s: check %s failed: %s\n", program_name, name.c_str(), detail.c_str());
    }

    // Writes the record where --json says (nowhere when it was not given) and returns the program's exit code.
    int finish(const std::string& path) const {
        const int code = passed ? 0 : kExitCheckFailed;
        if (path.empty()) return code;
        JsonObject all;
        all.add("program", program).add("variant", variant).add("parameters", parameters);
        all.add("results", results).add("checks", checks).add("gpu", gpu);
        const std::string partial = path + ".part", text = all.str() + "\n";
        std::FILE* file = std::fopen(partial.c_str(), "w");
        if (file == nullptr) fail("%s: cannot be written; check the folder and its permissions", path.c_str());
        const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
        if (std::fclose(file) != 0 || !written || std::rename(partial.c_str(), path.c_str()) != 0) {
            std::remove(partial.c_str());
            fail("%s: could not be written in full; is the disk full?", path.c_str());
        }
        return code;
    }
};

}  // namespace lab

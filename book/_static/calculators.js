// The calculators of the book. `arithmetic` is labcode.analysis.arithmetic, function by function: a test holds both to
// the same answers. What is around it (sliders, answers, a curve) is described by the page's own data.
(function () {
  "use strict";

  const MIB = 2 ** 20;
  const VOCABULARY = 10000; // of the decoder of labcode.analysis.lm
  const GRID = 1 << 15, HORIZON = 60; // of the queue, as in labcode.analysis.serving.queueing

  // Quantiles of the time in an M/G/1 queue whose requests take a short time, nine in ten, or a long one. The wait w
  // solves w = (1 − ρ)·δ + ρ·(R ∗ w); R, the residual service time, is two steps, so sums of w do.
  function quantiles(load, short, long, mean, wait, shares) {
    const step = (HORIZON * (wait + mean)) / GRID;
    const a = Math.min(Math.floor(short / step + 0.5), GRID - 1), b = Math.min(Math.floor(long / step + 0.5), GRID - 1);
    const total = a + 0.1 * (b - a) || 1;
    const first = (total === 1 && !a && !b ? 1 : a > 0 ? 1 : b > 0 ? 0.1 : 0) / total;
    const sums = new Float64Array(GRID + 1); // of w before a place
    const between = (from, to) => sums[Math.max(to, 0)] - sums[Math.max(from, 0)];
    const found = [];
    let reached = 0;
    for (let i = 0; i < GRID; i++) {
      let earlier = 0;
      if (a > 1) earlier += between(i - a + 1, i);
      earlier += 0.1 * between(i - b + 1, i - Math.max(a, 1) + 1);
      const w = ((i === 0 ? 1 - load : 0) + (load * earlier) / total) / (1 - load * first);
      sums[i + 1] = sums[i] + w;
      const at = (place) => (place < 0 ? 0 : sums[place + 1] - sums[place]);
      reached += 0.9 * at(i - a) + 0.1 * at(i - b);
      while (found.length < shares.length && reached >= shares[found.length]) found.push(i * step);
      if (found.length === shares.length) break;
    }
    while (found.length < shares.length) found.push(GRID * step);
    return found;
  }

  const arithmetic = {
    roofline(x) {
      const attainable = Math.min(x.peak, (x.intensity * x.bandwidth) / 1e3);
      return {
        attainable: attainable,
        share: attainable / x.peak,
        ridge: (1e3 * x.peak) / x.bandwidth,
        bytes_ms: 1e3 / x.bandwidth,
        flops_ms: x.intensity / x.peak,
      };
    },
    step(x) {
      const d = Math.trunc(x.d_model), tokens = Math.trunc(x.batch) * Math.trunc(x.context);
      const layer = 24 * d * d * tokens + 4 * d * Math.trunc(x.context) * tokens;
      const flop = 3 * (Math.trunc(x.layers) * layer + 2 * tokens * d * VOCABULARY);
      const least = flop / x.peak / 1e9;
      return {
        tflop: flop / 1e12,
        least_ms: least,
        mfu: least / x.step_ms,
        tokens_per_s: (1e3 * x.batch * x.context) / x.step_ms,
      };
    },
    cache(x) {
      const weights = x.parameters * x.weight_bytes;
      const sequence = (2 * x.layers * x.kv_width * x.value_bytes * x.context) / 1e6;
      const needs = weights + (x.batch * sequence) / 1e3;
      const bytes = (1e3 * needs) / x.bandwidth, flops = (2 * x.batch * x.parameters) / x.peak;
      const step = Math.max(bytes, flops);
      return {
        weights_gb: weights,
        sequence_mb: sequence,
        fits: Math.max(0, Math.floor((1e3 * (x.memory - weights)) / sequence)),
        needs_gb: needs,
        step_ms: step,
        flops_share: flops / bytes,
        tokens_per_s: (1e3 * x.batch) / step,
      };
    },
    allreduce(x) {
      const n = Math.trunc(x.count), factor = (2 * (n - 1)) / n;
      const start = 1e-6 * x.alpha_us * Math.sqrt(n - 1);
      const moved = (factor * x.mib * MIB) / (x.gbps * 1e9);
      return {
        time_us: 1e6 * (start + moved),
        bus_gb_per_s: (factor * x.mib * MIB) / (start + moved) / 1e9,
        start_share: start / (start + moved),
        half_mib: (x.mib * start) / moved,
      };
    },
    scaling(x) {
      const n = Math.trunc(x.count), s = x.serial;
      const universal = n / (1 + s * (n - 1) + x.crosstalk * n * (n - 1));
      return {
        amdahl: 1 / (s + (1 - s) / n),
        gustafson: n - s * (n - 1),
        universal: universal,
        efficiency: universal / n,
        limit: 1 / s,
        best: Math.sqrt((1 - s) / x.crosstalk),
      };
    },
    queue(x) {
      const long = x.mean_ms * (1 + 3 * x.variation), short = x.mean_ms * (1 - x.variation / 3);
      const rate = x.load / x.mean_ms;
      const wait = (rate * (0.9 * short * short + 0.1 * long * long)) / (2 * (1 - x.load));
      const [p50, p99] = quantiles(x.load, short, long, x.mean_ms, wait, [0.5, 0.99]);
      return { rate_per_s: 1e3 * rate, wait_ms: wait, p50_ms: p50, p99_ms: p99, times: p99 / p50 };
    },
    joules(x) {
      const working = x.watts / x.tokens_per_s;
      const token = working + (x.idle_watts * (1 - x.load)) / x.load / x.tokens_per_s;
      return { token_mj: 1e3 * token, idle_share: 1 - working / token, tokens_per_j: 1 / token, kwh: token / 3.6 };
    },
  };

  const THIN = "\u202f";
  function number(value) {
    if (!Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size >= 1e7 || (size > 0 && size < 1e-4)) return value.toExponential(2).replace("e+", "e");
    return value.toLocaleString("en", size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
  }
  function shown(value, unit) {
    if (unit === "%") return `${(100 * value).toFixed(value < 0.1 ? 1 : 0)}${THIN}%`;
    return number(value) + (unit === "×" ? unit : unit ? THIN + unit : "");
  }

  function element(name, attributes, ...children) {
    const svg = ["svg", "path", "circle", "text", "line"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const NOTCHES = 1000; // of a slider
  const place = (input, value) => input.log
    ? (NOTCHES * Math.log(value / input.low)) / Math.log(input.high / input.low)
    : (NOTCHES * (value - input.low)) / (input.high - input.low);
  function valueAt(input, notch) {
    const share = notch / NOTCHES;
    const value = input.log ? input.low * (input.high / input.low) ** share : input.low + share * (input.high - input.low);
    const whole = input.step ? Math.round(value / input.step) * input.step : Number(value.toPrecision(3));
    return Math.min(Math.max(whole, input.low), input.high);
  }

  function curve(data, now, result) {
    const [over, of] = data.curve;
    const input = data.inputs.find((one) => one.key === over), output = data.outputs.find((one) => one.key === of);
    const width = 640, height = 216, left = 80, bottom = 40, top = 26;
    const xs = Array.from({ length: 121 }, (_, index) => valueAt(input, (index * NOTCHES) / 120));
    const ys = xs.map((x) => arithmetic[data.kind]({ ...now, [over]: x })[of]);
    const log = Math.max(...ys) / Math.min(...ys) > 50 && Math.min(...ys) > 0;
    const low = log ? Math.min(...ys) : 0, high = Math.max(...ys);
    const x = (value) => left + (place(input, value) / NOTCHES) * (width - left - 10);
    const share = (value) => (log ? Math.log(value / low) / Math.log(high / low || 2) : value / (high || 1));
    const y = (value) => top + (1 - share(value)) * (height - top - bottom);
    const path = xs.map((one, index) => `${index ? "L" : "M"}${x(one).toFixed(1)} ${y(ys[index]).toFixed(1)}`).join("");
    const picture = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${output.label} over ${input.label}: ${shown(result[of], output.unit)} at ${shown(now[over], input.unit)}` });
    for (const level of [0, 0.5, 1]) {
      const value = log ? low * (high / low) ** level : level * high;
      picture.append(element("line", { x1: left, x2: width - 10, y1: y(value), y2: y(value), class: "grid" }),
        element("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, shown(value, output.unit === "%" ? "%" : "")));
    }
    for (const [level, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      const value = valueAt(input, level * NOTCHES);
      picture.append(element("text", { x: x(value), y: height - 22, "text-anchor": anchor }, number(value)));
    }
    const unit = (one) => (one.unit && one.unit !== "×" ? ` (${one.unit})` : "");
    picture.append(element("text", { x: 0, y: 14 }, output.label + unit(output)),
      element("text", { x: width - 10, y: height - 3, "text-anchor": "end" }, input.label + unit(input)),
      element("path", { d: path, class: "line" }),
      element("circle", { cx: x(now[over]), cy: y(result[of]), r: 5, class: "here" }));
    return picture;
  }

  function attach(root) {
    const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const now = { ...Object.values(data.presets)[0] };
    const presets = element("select", {});
    Object.keys(data.presets).forEach((name) => presets.append(element("option", { value: name }, name)));
    const form = element("form", {}, element("label", {}, element("span", {}, "Start from"), presets));
    const rows = data.inputs.map((input) => {
      const slider = element("input", { type: "range", min: 0, max: NOTCHES, step: 1 });
      const text = element("output", {});
      form.append(element("label", {}, element("span", {}, input.label, " ", text), slider));
      slider.addEventListener("input", () => {
        now[input.key] = valueAt(input, Number(slider.value));
        show();
      });
      return { input, slider, text };
    });
    const answers = element("dl", { "aria-live": "polite" }), picture = element("figure", {});
    root.append(form, answers, picture);
    function show() {
      rows.forEach(({ input, text, slider }) => {
        text.textContent = shown(now[input.key], input.unit);
        slider.setAttribute("aria-valuetext", text.textContent);
      });
      const result = arithmetic[data.kind](now);
      answers.replaceChildren(...data.outputs.map((output) => element("div", {},
        element("dt", {}, output.label), element("dd", {}, shown(result[output.key], output.unit)))));
      picture.replaceChildren(curve(data, now, result));
    }
    function start() {
      Object.assign(now, data.presets[presets.value]);
      rows.forEach(({ input, slider }) => { slider.value = place(input, now[input.key]); });
      show();
    }
    presets.addEventListener("change", start);
    form.addEventListener("submit", (event) => event.preventDefault());
    start();
  }

  if (typeof module !== "undefined" && module.exports) module.exports = { arithmetic: arithmetic };
  if (typeof document !== "undefined") {
    const begin = () => document.querySelectorAll(".lab-calculator").forEach(attach);
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
    else begin();
  }
})();

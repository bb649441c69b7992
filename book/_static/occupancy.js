// The occupancy calculator of the book: the tables of labcode.analysis.kernel.occupancy in, blocks and warps out.
// `compute` is the Python function of the same module line by line; a test holds both to the same answers.
(function () {
  "use strict";

  function up(number, unit) {
    return Math.ceil(number / unit) * unit;
  }

  function compute(tables, cc, threads, registers, sharedBytes) {
    const sm = tables.limits[cc];
    const warps = up(threads, tables.warp) / tables.warp;
    const shared = up(sharedBytes + sm.reserved_bytes, sm.shared_unit);
    const warpRegisters = up(registers * tables.warp, tables.register_unit);
    const limits = {
      warps: Math.floor(sm.warps / warps),
      blocks: sm.blocks,
      registers: sm.blocks,
      "shared memory": sm.blocks,
    };
    if (warpRegisters > 0) {
      const perPartition = Math.floor(tables.registers / tables.partitions / warpRegisters);
      limits.registers =
        warpRegisters * up(warps, tables.partitions) > tables.registers
          ? 0
          : Math.floor((perPartition * tables.partitions) / warps);
    }
    if (shared > sm.shared_block_bytes + sm.reserved_bytes) limits["shared memory"] = 0;
    else if (shared > 0) limits["shared memory"] = Math.floor(sm.shared_bytes / shared);
    const blocks = Math.min(...Object.values(limits));
    return {
      blocks: blocks,
      warps: blocks * warps,
      share: (blocks * warps) / sm.warps,
      limits: limits,
      limiters: Object.keys(limits).filter((name) => limits[name] === blocks),
      registersPerThread: warpRegisters / tables.warp,
      sharedPerBlock: shared,
    };
  }

  function element(name, attributes, ...children) {
    const svg = ["svg", "path", "circle", "text", "line"].includes(name);
    const made = svg
      ? document.createElementNS("http://www.w3.org/2000/svg", name)
      : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function percent(share) {
    return (100 * share).toFixed(1).replace(/\.0$/, "") + " %";
  }

  // One curve: occupancy while x varies, as a step line with the present place marked.
  function curve(title, places, share, now) {
    const width = 300, height = 110, left = 46, bottom = 20;
    const most = places[places.length - 1], least = places[0];
    const x = (value) => left + ((value - least) / (most - least)) * (width - left - 8);
    const y = (value) => 6 + (1 - value) * (height - bottom - 12);
    let path = "";
    places.forEach((place, index) => {
      path += (index ? `H${x(place).toFixed(1)}V` : `M${x(place).toFixed(1)} `) + y(share(place)).toFixed(1);
    });
    const here = Math.min(Math.max(now, least), most);
    const picture = element("svg", {
      viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${title}: occupancy ${percent(share(here))} at ${now}`,
    });
    for (const level of [0, 0.5, 1]) {
      picture.append(element("line", { x1: left, x2: width - 8, y1: y(level), y2: y(level), class: "grid" }));
      picture.append(element("text", { x: left - 4, y: y(level) + 3, "text-anchor": "end" }, percent(level)));
    }
    picture.append(element("path", { d: path, class: "line" }));
    picture.append(element("circle", { cx: x(here), cy: y(share(here)), r: 4, class: "here" }));
    picture.append(element("text", { x: left, y: height - 4 }, String(least)));
    picture.append(element("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, most.toLocaleString("en")));
    return element("figure", {}, picture, element("figcaption", {}, title));
  }

  function range(least, most, step) {
    const places = [];
    for (let place = least; place <= most; place += step) places.push(place);
    return places;
  }

  function attach(root) {
    const tables = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const select = element("select", { name: "cc" });
    for (const [cc, one] of Object.entries(tables.limits)) {
      select.append(element("option", { value: cc }, `${cc} (${one.chips})`));
    }
    select.value = root.dataset.cc;
    const number = (name, least, most) =>
      element("input", { type: "number", name: name, min: least, max: most, value: root.dataset[name] });
    const threads = number("threads", 1, tables.most_threads);
    const registers = number("registers", 0, tables.most_registers);
    const shared = number("shared", 0, 232448);
    const form = element("form", {});
    for (const [text, input] of [
      ["Compute capability", select],
      ["Threads of a block", threads],
      ["Registers of a thread", registers],
      ["Shared memory of a block, bytes", shared],
    ]) {
      form.append(element("label", {}, element("span", {}, text), input));
    }
    const answer = element("output", { "aria-live": "polite" });
    const table = element("table", {});
    const curves = element("div", { class: "curves" });
    root.append(form, answer, table, curves);

    function show() {
      const sm = tables.limits[select.value];
      const clamp = (input) =>
        Math.min(Math.max(Math.trunc(Number(input.value)) || Number(input.min), Number(input.min)), Number(input.max));
      shared.max = sm.shared_block_bytes;
      const now = { threads: clamp(threads), registers: clamp(registers), shared: clamp(shared) };
      const at = (change) => {
        const all = { ...now, ...change };
        return compute(tables, select.value, all.threads, all.registers, all.shared);
      };
      const found = at({});
      answer.replaceChildren(
        element("strong", {}, percent(found.share)),
        ` ${found.warps} of ${sm.warps} warps: ${found.blocks} block${found.blocks === 1 ? "" : "s"} fit an SM, ` +
          `limited by ${found.limiters.join(" and ")}.`,
      );
      table.replaceChildren(element("caption", {}, "Blocks that fit an SM by each resource"));
      for (const [name, most] of Object.entries(found.limits)) {
        const row = element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, String(most)));
        if (found.limiters.includes(name)) row.className = "limiter";
        table.append(row);
      }
      curves.replaceChildren(
        curve("Threads of a block", range(32, tables.most_threads, 32), (x) => at({ threads: x }).share, now.threads),
        curve("Registers of a thread", range(16, tables.most_registers, 1), (x) => at({ registers: x }).share,
          now.registers),
        curve("Shared memory of a block, bytes", range(0, sm.shared_block_bytes, 512), (x) => at({ shared: x }).share,
          now.shared),
      );
    }
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }

  if (typeof module !== "undefined" && module.exports) module.exports = { compute: compute };
  if (typeof document !== "undefined") {
    const start = () => document.querySelectorAll(".lab-occupancy").forEach(attach);
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
    else start();
  }
})();

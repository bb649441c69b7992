// Predictions of the book: a form for each question, what it was told kept in this browser alone, and the page
// that compares all of it with what was measured. `judge` and `summary` are pure; a test runs them without a page.
(function () {
  "use strict";

  const KEPT = "labcode.predictions";
  const SURE = [50, 70, 90]; // percent
  const ENOUGH = 3; // predictions, before anything is said about them together

  // What was predicted beside what was measured: right, and for numbers how many times as large it was.
  function judge(question, given) {
    if (question.value === null) return { right: given === question.shown, off: null };
    const off = given / question.value;
    return { right: Math.max(off, 1 / off) <= question.within * (1 + 1e-9), off: off };
  }

  function median(values) {
    const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  function together(rows) {
    const right = rows.filter((row) => row.right).length;
    const sure = rows.reduce((sum, row) => sum + row.sure, 0) / rows.length / 100;
    return { count: rows.length, right: right, share: right / rows.length, sure: sure };
  }

  // Of rows {part, right, off, sure}: all of them, by how sure one was, and by part of the book.
  function summary(rows) {
    const offs = rows.map((row) => row.off).filter((off) => off !== null);
    const by = (keys, of) => keys.map((key) => [key, rows.filter((row) => of(row) === key)])
      .filter(([, found]) => found.length).map(([key, found]) => ({ key: key, ...together(found) }));
    const part = (row) => row.part;
    return {
      all: rows.length ? together(rows) : null,
      factor: offs.length ? median(offs.map((off) => Math.max(off, 1 / off))) : null,
      high: offs.filter((off) => off > 1).length,
      low: offs.filter((off) => off < 1).length,
      bySure: by(SURE, (row) => row.sure),
      byPart: by([...new Set(rows.map(part))], part),
    };
  }

  function verdict(one) {
    if (one.count < ENOUGH) return "too few to say";
    const points = Math.round(100 * (one.sure - one.share));
    if (points > 10) return `overconfident by ${points} points`;
    return points < -10 ? `underconfident by ${-points} points` : "as sure as right";
  }

  let unkept = {}; // where the browser lets pages keep nothing
  function kept() {
    try {
      const found = JSON.parse(localStorage.getItem(KEPT) || "{}");
      return found && typeof found === "object" ? found : {};
    } catch (error) {
      return unkept;
    }
  }
  function keep(all) {
    unkept = all;
    try {
      localStorage.setItem(KEPT, JSON.stringify(all));
      return true;
    } catch (error) {
      return false;
    }
  }

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const THIN = "\u202f";
  function number(value) {
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 0.1 ? 4 : digits });
  }
  function withUnit(value, unit) {
    return number(value) + (unit === "×" || !unit ? unit : THIN + unit);
  }
  const percent = (share) => `${Math.round(100 * share)}${THIN}%`;
  function said(question, given) {
    return question.value === null ? String(given) : withUnit(given, question.unit);
  }
  function apart(question, found) {
    const word = found.right ? "right" : "not right";
    if (found.off === null) return word;
    if (Math.abs(found.off - 1) < 0.005) return "right on it";
    const factor = Math.max(found.off, 1 / found.off);
    const where = `${found.right ? "within" : "beyond"} ${number(question.within)}×`;
    return `${where}: ${number(factor)}× too ${found.off > 1 ? "high" : "low"}`;
  }

  function attach(root, place) {
    const question = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    if (!question.id) return;
    const asked = root.querySelector(".lab-predict-question");
    const folded = root.querySelector("details");
    const id = `predict-${place}`;
    asked.id = `${id}-question`;
    const listed = asked.querySelector(":scope > ul");
    const form = element("form", { class: "lab-predict-form", "aria-labelledby": asked.id });
    if (question.value === null) {
      const group = element("div", { role: "radiogroup", class: "choices", "aria-labelledby": asked.id });
      question.choices.forEach((choice) => {
        group.append(element("label", {}, element("input", { type: "radio", name: id, value: choice, required: "" }),
          " ", choice));
      });
      form.append(group);
    } else {
      const input = element("input", {
        type: "number", step: "any", min: "1e-12", required: "", inputmode: "decimal", name: id,
        "aria-labelledby": `${asked.id} ${id}-unit`, autocomplete: "off",
      });
      form.append(element("span", { class: "number" }, input, " ",
        element("span", { id: `${id}-unit` }, question.unit === "×" ? "times" : question.unit)));
    }
    const sure = element("select", { name: "sure" });
    SURE.forEach((one) => sure.append(element("option", { value: one }, `${one}${THIN}%`)));
    sure.value = "70";
    const within = question.value === null ? "that this is it" : `to be within a factor of ${number(question.within)}`;
    form.append(element("label", { class: "sure" }, "I am ", sure, ` sure ${within} `),
      element("button", { type: "submit" }, "Commit"));
    const told = element("output", { "aria-live": "polite", tabindex: "-1" });
    root.append(form, told, folded);

    function show(moveFocus) {
      const mine = kept()[question.id];
      form.hidden = folded.hidden = Boolean(mine);
      if (listed) listed.hidden = !mine;
      told.hidden = !mine;
      if (!mine) return;
      const found = judge(question, mine.given);
      root.classList.toggle("right", found.right);
      told.replaceChildren(
        element("span", {}, "You: ", element("b", {}, said(question, mine.given)), `, ${mine.sure}${THIN}% sure`),
        element("span", {}, "Measured: ", element("b", {}, question.shown), ` (${question.machine})`),
        element("span", { class: "verdict" }, `${found.right ? "✓" : "✗"} ${apart(question, found)}`),
      );
      if (moveFocus) told.focus({ preventScroll: true });
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = new FormData(form).get(id);
      const given = question.value === null ? value : Number(value);
      const all = kept();
      all[question.id] = { given: given, sure: Number(sure.value), at: new Date().toISOString() };
      const stored = keep(all);
      show(true);
      if (!stored) told.append(element("span", {}, "This browser lets pages keep nothing: it is gone when you leave."));
    });
    show(false);
  }

  function table(caption, header, rows) {
    const head = element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text)));
    const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
    return element("div", { class: "pst-scrollable-table-container" }, element("table", { class: "table lab-table" },
      element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body)));
  }

  function download(name, text) {
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function overview(root) {
    const questions = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const shown = element("div", { "aria-live": "polite" });
    root.append(shown);

    function rowsOf(all) {
      return questions.filter((one) => all[one.id]).map((one) => ({
        question: one, part: one.part, ...all[one.id], ...judge(one, all[one.id].given),
      }));
    }
    function show() {
      const all = kept(), rows = rowsOf(all), found = summary(rows);
      if (!rows.length) {
        shown.replaceChildren(element("p", {},
          `You have predicted nothing yet: ${questions.length} questions of the book wait, each before its measurement.`));
        return;
      }
      const first = element("p", { class: "lab-predictions-all" }, element("strong", {},
        `${found.all.right} of ${found.all.count} right`), ` (${percent(found.all.share)}), ${percent(found.all.sure)} sure on average: `,
        `${verdict(found.all)}.`);
      if (found.factor !== null) {
        first.append(` A typical number is ${number(found.factor)}× off; ${found.high} were too high, ${found.low} too low.`);
      }
      const groups = (of, name) => of.map((one) => [
        name(one.key), String(one.count), `${one.right} (${percent(one.share)})`, percent(one.sure), verdict(one)]);
      const columns = ["predictions", "right", "sure on average", ""];
      const everything = rows.map((row) => {
        const forget = element("button", { type: "button", "aria-label": `Forget: ${row.question.text}` }, "Forget");
        forget.addEventListener("click", () => {
          const left = kept();
          delete left[row.question.id];
          keep(left);
          show();
        });
        return [
          element("span", {}, element("a", { href: row.question.link }, row.question.title), element("br"), row.question.text),
          said(row.question, row.given), row.question.shown, `${row.right ? "✓" : "✗"} ${apart(row.question, row)}`,
          `${row.sure}${THIN}%`, forget];
      });
      const exported = element("button", { type: "button" }, "Export as JSON");
      exported.addEventListener("click", () => download("predictions.json", JSON.stringify(rows.map((row) => ({
        id: row.question.id, question: row.question.text, predicted: row.given, sure_percent: row.sure, at: row.at,
        measured: row.question.value === null ? row.question.shown : row.question.value, unit: row.question.unit,
        machine: row.question.machine, right: row.right, predicted_by_measured: row.off,
      })), null, 1) + "\n"));
      const erase = element("button", { type: "button" }, "Erase all");
      erase.addEventListener("click", () => {
        if (window.confirm(`Erase all ${rows.length} predictions?`)) {
          keep({});
          show();
        }
      });
      shown.replaceChildren(
        first,
        table("By how sure you were", ["how sure", ...columns], groups(found.bySure, (key) => `${key}${THIN}%`)),
        table("By part of the book", ["part", ...columns], groups(found.byPart, (key) => key)),
        table("Every prediction", ["question", "you", "measured", "", "sure", ""], everything),
        element("p", { class: "lab-predictions-buttons" }, exported, " ", erase),
      );
    }
    show();
    addEventListener("storage", (event) => { if (event.key === KEPT) show(); });
  }

  if (typeof module !== "undefined" && module.exports) module.exports = { judge: judge, summary: summary, verdict: verdict };
  if (typeof document !== "undefined") {
    const start = () => {
      document.querySelectorAll(".lab-predict").forEach(attach);
      document.querySelectorAll(".lab-predictions").forEach(overview);
    };
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
    else start();
  }
})();

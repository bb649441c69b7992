// node predict_check.js predict.js CASES.json: what the script says of predictions, as JSON on stdout.
const fs = require("fs");
const path = require("path");
const { judge, summary, verdict, written, read, merged, rowsOf } = require(path.resolve(process.argv[2]));
const cases = JSON.parse(fs.readFileSync(process.argv[3], "utf-8"));
const judged = cases.judged.map(([question, given]) => judge(question, given));
const told = summary(cases.rows);
const files = (cases.files || []).map((content) => {
  try {
    const found = merged(cases.kept, read(content), cases.questions);
    const rows = rowsOf(found.all, cases.questions);
    return { ...found, parts: rows.map((row) => row.part), links: rows.map((row) => row.question.link), again: written(rows) };
  } catch (error) {
    return { error: error.message };
  }
});
console.log(JSON.stringify({ judged, summary: told, verdicts: told.bySure.map(verdict), files }));

// node predict_check.js predict.js CASES.json: what the script says of predictions, as JSON on stdout.
const fs = require("fs");
const path = require("path");
const { judge, summary, verdict } = require(path.resolve(process.argv[2]));
const cases = JSON.parse(fs.readFileSync(process.argv[3], "utf-8"));
const judged = cases.judged.map(([question, given]) => judge(question, given));
const told = summary(cases.rows);
console.log(JSON.stringify({ judged, summary: told, verdicts: told.bySure.map(verdict) }));

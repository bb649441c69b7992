// node calculators_check.js calculators.js CASES.json: the calculators' answers, as JSON on stdout.
const fs = require("fs");
const path = require("path");
const { arithmetic } = require(path.resolve(process.argv[2]));
const cases = JSON.parse(fs.readFileSync(process.argv[3], "utf-8"));
console.log(JSON.stringify(cases.map(([kind, inputs]) => arithmetic[kind](inputs))));

// node occupancy_check.js occupancy.js TABLES.json CASES.json: the calculator's answers, as JSON on stdout.
const fs = require("fs");
const path = require("path");
const { compute } = require(path.resolve(process.argv[2]));
const tables = JSON.parse(fs.readFileSync(process.argv[3], "utf-8"));
const cases = JSON.parse(fs.readFileSync(process.argv[4], "utf-8"));
console.log(JSON.stringify(cases.map((one) => compute(tables, ...one))));

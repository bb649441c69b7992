// node search_check.js search-rank.js search-index.js QUESTIONS.json: the results of each question, as JSON on stdout.
const fs = require("fs");
const path = require("path");
const { makeSearch } = require(path.resolve(process.argv[2]));
let search;
global.labSearchIndex = (data) => (search = makeSearch(data));
require(path.resolve(process.argv[3]));
const questions = JSON.parse(fs.readFileSync(process.argv[4], "utf-8"));
console.log(JSON.stringify(questions.map((question) => search(question))));

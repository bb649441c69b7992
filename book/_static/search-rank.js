// The search of the book: the pages of search-index.js and a question in, pages in order out.
// A word counts by how rare it is and by where it stands: in the title, among the page's keywords, in what other pages
// say where they link to the page, in a heading, in the prose. A title or a keyword of several words counts besides by how
// much of it is asked for. Words of one group of synonyms stand for each other. No page is read twice: what each word occurs
// in is noted when the index comes.
(function () {
  "use strict";

  const PROSE = 0, HEADING = 1, SAID = 2, ASKED = 3; // fields
  const FIELDS = 4, LONGEST = 1 << 20; // of keys: (section · FIELDS + field) · LONGEST + position
  const WEIGHT = { title: 9, asked: 7, said: 2.5, heading: 3, prose: 1 };
  const SATURATION = 8;
  const SYNONYM = 0.9, SYNONYM_OF_NONE = 0.95, PREFIX = 0.6, TYPO = 0.6, PAIR = 0.5, PHRASE = 0.8;
  const STOP = new Set(
    ("a about actually amount an and any are as at be been but by can could did do does doing during for from get gets give had has have help " +
      "how i if in into is it its just many me mine more most much my need no not of on or our out please question really require should so some such than that the their them then " +
      "there these they this to us use using very want was way we well what when where whether which while who why will with " +
      "would you your").split(" "),
  );
  // Words of a question that say little of what it is about, and adverbs, count less, however rare they are in the book.
  const FAINT = new Set(
    ("again average avg bad behavior better bug error excessive expect fail feature good great huge inconsistent issue large like little long longer low lower make mean " +
      "new only performance poor possible problem project question reason request result run script seem small still test try under usual version weird work wrong").split(" ").map(stem),
  );
  const FAINTLY = 0.5;
  const LABEL = /^\s*(?:\[[^\]]*\]\s*:?\s*)+/; // of an issue's kind, before its title

  function loudness(word) {
    return FAINT.has(stem(word)) || /[a-z]{3}ly$/.test(word) ? FAINTLY : 1;
  }

  function stem(word) {
    let w = word;
    if (w.length < 4 || /\d/.test(w)) return w;
    w = w.replace(/isation/, "ization").replace(/our$/, "or");
    if (/ies$/.test(w)) w = w.slice(0, -3) + "y";
    else if (/(?:ss|x|ch|sh)es$/.test(w)) w = w.slice(0, -2);
    else if (/[^sui]s$/.test(w)) w = w.slice(0, -1);
    const cut = w.replace(/(?:ing|ed|er|ers)$/, "");
    if (cut !== w && cut.length >= 3 && /[aeiouy]/.test(cut)) w = cut.replace(/([^aeiouls])\1$/, "$1");
    return w.length > 3 ? w.replace(/e$/, "") : w;
  }

  function asWritten(text) {
    return text.match(/[\p{L}\p{N}]+/gu) ?? [];
  }

  // A word's stem, and of names such as OutOfMemoryError those of the parts.
  const known = new Map();
  function stems(word) {
    if (!known.has(word)) {
      const parts = word.split(/(?<=[a-z])(?=[A-Z])/);
      known.set(word, { whole: stem(word.toLowerCase()), parts: parts.map((part) => stem(part.toLowerCase())) });
    }
    return known.get(word);
  }

  // The words of a text, each with its place.
  function words(text) {
    const found = [];
    let position = 0;
    for (const word of asWritten(text)) {
      const { whole, parts } = stems(word);
      found.push([whole, position]);
      if (parts.length > 1) parts.forEach((part, i) => found.push([part, position + i]));
      position += parts.length;
    }
    return found;
  }

  // The stems of a phrase that tell something.
  function telling(text) {
    return [...new Set(asWritten(text).filter((word) => !STOP.has(word.toLowerCase())).map((word) => stems(word).whole))];
  }

  function distance(a, b, most) {
    if (Math.abs(a.length - b.length) > most) return most + 1;
    let before = null, row = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) {
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
      }
      [before, row] = [row, next];
    }
    return row[b.length];
  }

  function makeSearch(data) {
    const sections = []; // { page, heading, text, anchor, first, length }
    const places = new Map(); // word -> keys
    const keySets = new Map();

    function note(section, field, text, from) {
      let last = from;
      for (const [word, position] of words(text)) {
        const key = (section * FIELDS + field) * LONGEST + from + position;
        last = Math.max(last, from + position + 1);
        if (places.has(word)) places.get(word).push(key);
        else places.set(word, [key]);
      }
      return last;
    }

    const said = new Map();
    for (const page of data.pages)
      for (const [target, texts] of Object.entries(page.links)) said.set(target, [...(said.get(target) ?? []), ...texts]);
    const pages = data.pages.map((page, number) => {
      const first = sections.length;
      for (const [anchor, heading, text] of page.sections) {
        const section = sections.length;
        sections.push({ page: number, anchor, heading, text, first: section === first, length: 0 });
        note(section, HEADING, heading, 0);
        sections[section].length = note(section, PROSE, text, 0);
      }
      let place = 0;
      const texts = [...new Set(said.get(page.page) ?? [])];
      if (page.sections.length) for (const text of texts) place = note(first, SAID, text, place) + 5;
      let next = 0;
      for (const text of data.keywords?.[page.page] ?? []) next = note(first, ASKED, text, next) + 5;
      const phrases = [page.title, ...(data.keywords?.[page.page] ?? [])].map(telling).filter((phrase) => phrase.length > 1);
      const named = 0.6 + 0.8 / Math.max(asWritten(page.title).filter((word) => !STOP.has(word.toLowerCase())).length, 1);
      return { ...page, first, phrases, named, said: 1 + place / 40, length: page.sections.reduce((sum, _, i) => sum + sections[first + i].length, 0) };
    });
    const meanPage = pages.reduce((sum, page) => sum + page.length, 0) / pages.length;
    const meanSection = sections.reduce((sum, section) => sum + section.length, 0) / sections.length;
    const groups = data.synonyms.map((group) => group.map((phrase) => asWritten(phrase).map((word) => stems(word).whole)));

    const grouped = new Set(groups.flat(2));

    function keySet(word) {
      if (!keySets.has(word)) keySets.set(word, new Set(places.get(word) ?? []));
      return keySets.get(word);
    }

    // Where the words stand one after the other.
    function occurrences(phrase) {
      const found = places.get(phrase[0]) ?? [];
      if (phrase.length === 1) return found;
      return found.filter((key) => phrase.every((word, i) => i === 0 || keySet(word).has(key + i)));
    }

    function counts(phrase) {
      const inSections = new Map();
      for (const key of occurrences(phrase)) {
        const place = Math.floor(key / LONGEST);
        const section = Math.floor(place / FIELDS);
        if (!inSections.has(section)) inSections.set(section, [0, 0, 0, 0]);
        inSections.get(section)[place % FIELDS] += 1;
      }
      return inSections;
    }

    function rarity(holding) {
      return Math.log(1 + (sections.length - holding + 0.5) / (holding + 0.5));
    }

    // A word that no page has: its two halves, longer words that begin so, or words that differ by a letter or two.
    function instead(word, unfinished) {
      for (let i = 2; i <= word.length - 2; i++) {
        const halves = [stem(word.slice(0, i)), stem(word.slice(i))];
        if (halves.every((half) => places.has(half)) && occurrences(halves).length) return [{ phrase: halves, weight: 1 }];
      }
      const all = [...places.keys()];
      if (unfinished && word.length > 1) {
        const longer = all.filter((other) => other.startsWith(word));
        longer.sort((a, b) => places.get(b).length - places.get(a).length);
        if (longer.length) return longer.slice(0, 12).map((other) => ({ phrase: [other], weight: PREFIX }));
      }
      const most = word.length > 7 ? 2 : word.length > 3 ? 1 : 0;
      const near = all.filter((other) => other[0] === word[0] && most && distance(word, other, most) <= most);
      return near.map((other) => ({ phrase: [other], weight: TYPO }));
    }

    // A long word that no page has, as the one that it was surely meant to be: it differs by a letter, and groups know it.
    function meant(word) {
      if (word.length < 6) return word;
      const near = [...grouped].filter((other) => other[0] === word[0] && distance(word, other, 1) <= 1);
      return near.length === 1 ? near[0] : word;
    }

    function startsAt(list, phrase, at) {
      return phrase.every((word, i) => list[at + i] === word);
    }

    // What is asked for: concepts, each with the phrases that stand for it.
    function concepts(question) {
      const asked = asWritten(question.replace(LABEL, "") || question);
      const loud = [];
      const all = asked.flatMap((word, i) => {
        const { whole, parts } = stems(word);
        const taken = places.has(whole) ? [whole] : parts.length > 1 ? parts : [i < asked.length - 1 ? meant(whole) : whole];
        for (const part of taken) loud.push(taken.length > 1 ? 1 : loudness(word.toLowerCase()));
        return taken;
      });
      const stops = asked.map((word) => STOP.has(word.toLowerCase()));
      const unfinished = !/\s$/.test(question);
      const covered = new Set();
      const found = [];
      for (const group of groups) {
        // Once a group, for the longest of its phrases that is asked for; where no page has that one, the others are meant.
        const here = group.flatMap((phrase) => all.map((_, at) => ({ phrase, at }))).filter(({ phrase, at }) => startsAt(all, phrase, at));
        here.sort((a, b) => b.phrase.length - a.phrase.length);
        for (const { phrase, at } of here) for (let i = 0; i < phrase.length; i++) covered.add(at + i);
        if (!here.length) continue;
        const [{ phrase, at }] = here;
        const weight = occurrences(phrase).length ? SYNONYM : SYNONYM_OF_NONE;
        const others = group.filter((other) => other !== phrase).map((other) => ({ phrase: other, weight }));
        found.push({ at, length: phrase.length, phrases: [{ phrase, weight: 1 }, ...others], weight: 1 });
      }
      const kept = all.map((word, at) => ({ word, at })).filter(({ at }) => all.length !== asked.length || !stops[at]);
      for (const { word, at } of kept.length ? kept : all.map((word, at) => ({ word, at }))) {
        if (found.some((concept) => concept.at === at && concept.length === 1)) continue;
        const phrases = places.has(word) ? [{ phrase: [word], weight: 1 }] : instead(word, unfinished && at === all.length - 1);
        if (places.has(word) && unfinished && at === all.length - 1 && word.length > 2 && !covered.has(at)) {
          const longer = [...places.keys()].filter((other) => other !== word && other.startsWith(word)).slice(0, 12);
          phrases.push(...longer.map((other) => ({ phrase: [other], weight: PREFIX / 2 })));
        }
        found.push({ at, length: 1, phrases, weight: (covered.has(at) ? 0.4 : 1) * loud[at] });
      }
      kept.forEach(({ word, at }, i) => {
        const next = kept[i + 1];
        if (next && next.at - at <= 2)
          found.push({ phrases: [{ phrase: all.slice(at, next.at + 1), weight: PAIR }], weight: 1, pair: true });
      });
      return found;
    }

    function search(question, limit = 12) {
      const scores = new Map(); // page -> { page, total, matched, best: Map(section -> score) }
      let possible = 0;
      const asked = concepts(question);
      for (const concept of asked) {
        let value = 0;
        const pageScores = new Map(), sectionScores = new Map();
        for (const { phrase, weight } of concept.phrases) {
          const where = counts(phrase);
          if (!where.size) continue;
          const worth = rarity(where.size) * weight * concept.weight;
          value = Math.max(value, worth);
          const byPage = new Map();
          for (const [number, [prose, heading, told, keyword]] of where) {
            const section = sections[number];
            const page = pages[section.page];
            const sum = byPage.get(section.page) ?? { title: 0, asked: 0, heading: 0, said: 0, prose: 0 };
            sum[section.first ? "title" : "heading"] += heading;
            sum.said += told;
            sum.asked += keyword;
            sum.prose += prose;
            byPage.set(section.page, sum);
            const tf = WEIGHT.heading * heading + (WEIGHT.prose * prose) / (0.4 + (0.6 * section.length) / meanSection);
            const score = (worth * tf) / (tf + SATURATION / 2);
            if (prose + heading) sectionScores.set(number, Math.max(sectionScores.get(number) ?? 0, score * page.weight));
          }
          for (const [number, sum] of byPage) {
            const page = pages[number];
            const tf =
              WEIGHT.title * page.named * Math.min(sum.title, 1) +
              WEIGHT.asked * Math.min(sum.asked, 1) +
              WEIGHT.heading * Math.min(sum.heading, 3) +
              (WEIGHT.said * sum.said) / Math.sqrt(page.said) +
              (WEIGHT.prose * sum.prose) / (0.4 + (0.6 * page.length) / meanPage);
            pageScores.set(number, Math.max(pageScores.get(number) ?? 0, (worth * tf) / (tf + SATURATION)));
          }
        }
        if (!concept.pair) possible += value || (concept.phrases.length ? 0 : 2);
        for (const [number, score] of pageScores) {
          const page = scores.get(number) ?? { number, total: 0, matched: 0, best: new Map() };
          page.total += score;
          if (!concept.pair) page.matched += score > 0 ? Math.min(value, score * 1.5) : 0;
          scores.set(number, page);
        }
        for (const [number, score] of sectionScores) {
          const { best } = scores.get(sections[number].page);
          best.set(number, (best.get(number) ?? 0) + score);
        }
      }
      const worths = new Map(); // word -> the most that it is worth here
      for (const { phrases, weight, pair } of asked)
        for (const { phrase, weight: share } of pair ? [] : phrases)
          for (const word of phrase) {
            const worth = (weight * share * rarity(Math.min(keySet(word).size, sections.length))) / phrase.length;
            worths.set(word, Math.max(worths.get(word) ?? 0, worth));
          }
      // What a page's best phrase is worth, that of its title or its keywords of which most is asked for.
      const together = (page) =>
        Math.max(0, ...page.phrases.map((phrase) => {
          const held = phrase.filter((word) => worths.has(word));
          return held.length > 1 ? (held.reduce((sum, word) => sum + worths.get(word), 0) * held.length) / phrase.length : 0;
        }));
      const results = [...scores.values()].map(({ number, total, matched, best }) => {
        const page = pages[number];
        const ordered = [...best].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
        const [section, sectionScore] = ordered[0] ?? [page.first, 0];
        const share = possible ? Math.min(1, matched / possible) : 1;
        return { number, section, score: (total + 0.6 * sectionScore + PHRASE * together(page)) * page.weight * (0.4 + 0.6 * share) };
      });
      results.sort((a, b) => b.score - a.score || a.number - b.number);
      const marked = new Set(asked.filter((c) => !c.pair).flatMap((c) => c.phrases.flatMap(({ phrase }) => phrase)));
      asked.forEach((c) => c.pair || c.phrases.forEach(({ phrase }) => phrase.length > 1 && phrase.forEach((w) => STOP.has(w) && marked.delete(w))));
      return results.slice(0, limit).map(({ number, section, score }) => {
        const page = pages[number];
        const { anchor, heading, text, first } = sections[section];
        return { page: page.page, title: page.title, anchor, heading: first ? "" : heading, excerpt: excerpt(text, marked), score };
      });
    }

    return search;
  }

  // The stretch of a text that holds most of what was asked for, as pieces: [text, whether it was asked for].
  function excerpt(text, marked) {
    const LENGTH = 190;
    const hits = [...text.matchAll(/[\p{L}\p{N}]+/gu)].filter((match) => words(match[0]).some(([word]) => marked.has(word)));
    let start = 0, best = -1;
    for (const hit of hits) {
      const inside = hits.filter((other) => other.index >= hit.index && other.index < hit.index + LENGTH - 40);
      const kinds = new Set(inside.map((match) => stem(match[0].toLowerCase()))).size;
      if (kinds > best) [best, start] = [kinds, hit.index];
    }
    const before = text.slice(0, start);
    const sentence = Math.max(...[". ", "? ", "! ", ": "].map((end) => before.lastIndexOf(end))) + 2; // its beginning, if near
    if (sentence === 1) start = start < 90 ? 0 : text.lastIndexOf(" ", start - 50) + 1;
    else start = start - sentence < 90 ? sentence : text.lastIndexOf(" ", start - 50) + 1;
    let end = Math.min(text.length, start + LENGTH);
    if (end < text.length) end = Math.max(text.lastIndexOf(" ", end), start);
    const pieces = [];
    let last = start;
    for (const hit of hits) {
      if (hit.index < start || hit.index + hit[0].length > end) continue;
      pieces.push([text.slice(last, hit.index), false], [hit[0], true]);
      last = hit.index + hit[0].length;
    }
    pieces.push([text.slice(last, end), false]);
    if (start > 0 && start !== sentence) pieces.unshift(["… ", false]);
    if (end < text.length) pieces.push([" …", false]);
    return pieces.filter(([piece]) => piece);
  }

  if (typeof module !== "undefined" && module.exports) module.exports = { makeSearch, stem, words };
  else window.labMakeSearch = makeSearch;
})();

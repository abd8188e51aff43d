// All that the page knows: places, workers, questions. Views listen for changes, which come once a frame.

/**
 * @typedef {{id: string, title: string, own: boolean, down: any, rows: Map<string, any>, questions: any[]}} Place
 */

export class State extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, Place>} */
    this.places = new Map();
    this.isKnown = false;
    this.isDue = false;
  }

  /** Takes a line of the stream. @param {any} line */
  take(line) {
    if (line.scanned !== undefined) {
      this.isKnown ||= line.scanned === 0 || this.places.size > 0;
      this.change();
      return;
    }
    if (line.gone) {
      this.places.delete(line.place);
      this.change();
      return;
    }
    let place = this.places.get(line.place);
    if (!place) {
      place = { id: line.place, title: '', own: false, down: null, rows: new Map(), questions: [] };
      this.places.set(line.place, place);
    }
    if (line.title !== undefined) {
      place.title = line.title;
      place.own = line.own === true;
    }
    if (line.down) place.down = line.down;
    if (line.all) {
      place.down = null;
      place.rows.clear();
    }
    for (const row of line.rows || []) place.rows.set(row.id, row);
    for (const [id, at] of Object.entries(line.seen || {})) {
      const row = place.rows.get(id);
      if (row) row.lastEventAt = at;
    }
    for (const id of line.removed || []) place.rows.delete(id);
    if (line.questions) place.questions = line.questions;
    this.isKnown = true;
    this.change();
  }

  change() {
    if (this.isDue) return;
    this.isDue = true;
    // A page that is not looked at gets no frames, and its title must still tell of questions.
    const next = document.hidden ? (/** @type {() => void} */ run) => setTimeout(run, 200) : requestAnimationFrame;
    next(() => {
      this.isDue = false;
      this.dispatchEvent(new Event('change'));
    });
  }

  /** All questions, the oldest first. */
  questions() {
    const all = [...this.places.values()].flatMap((place) => place.questions.map((question) => ({ place, question })));
    return all.sort((one, other) => one.question.since.localeCompare(other.question.since));
  }

  /** @param {string} place @param {string} worker */
  row(place, worker) {
    return this.places.get(place)?.rows.get(worker);
  }

  /** The workers that edit each file in their open turns. @param {string} place */
  editors(place) {
    /** @type {Map<string, any[]>} */
    const found = new Map();
    for (const row of this.places.get(place)?.rows.values() || []) {
      for (const path of row.doing?.editing || []) found.set(path, [...found.get(path) || [], row]);
    }
    return found;
  }

  /** The files that a worker edits and others too, with the names of these. @param {string} place @param {string} worker */
  shared(place, worker, editors = this.editors(place)) {
    /** @type {string[]} */
    const files = this.row(place, worker)?.doing?.editing || [];
    const others = (/** @type {string} */ path) => (editors.get(path) || []).filter((row) => row.id !== worker).map((row) => row.name);
    return files.map((path) => ({ path, names: others(path) })).filter(({ names }) => names.length);
  }

  /** The keys of tags that workers have. */
  tags() {
    const keys = [...this.places.values()].flatMap((place) => [...place.rows.values()]).flatMap((row) => Object.keys(row.tags || {}));
    return [...new Set(keys)].sort();
  }

  /** The workers of a place, each below the one whose task it is, with its depth. @param {Place} place @param {(row: any) => boolean} fits */
  tree(place, fits) {
    /** @type {Map<string | null, any[]>} */
    const below = new Map();
    for (const row of place.rows.values()) {
      const parent = row.task?.parent && place.rows.has(row.task.parent) ? row.task.parent : null;
      const beside = below.get(parent);
      if (beside) beside.push(row);
      else below.set(parent, [row]);
    }
    /** @type {{row: any, depth: number}[]} */
    const found = [];
    const seen = new Set();
    /** @param {string | null} parent @param {number} depth */
    const walk = (parent, depth) => {
      const rows = (below.get(parent) || []).sort(order);
      for (const row of rows) {
        if (seen.has(row.id)) continue;
        seen.add(row.id);
        if (fits(row)) found.push({ row, depth });
        walk(row.id, depth + 1);
      }
    };
    walk(null, 0);
    return found;
  }
}

const GROUPS = ['needs', 'working', 'done'];

/** Workers with questions first, then those with a turn, then the newest. @param {any} one @param {any} other */
export function order(one, other) {
  const rank = (/** @type {any} */ row) => (row.state === 'stopped' ? 3 : GROUPS.indexOf(row.group));
  return rank(one) - rank(other) || String(other.lastEventAt).localeCompare(String(one.lastEventAt)) || one.name.localeCompare(other.name);
}

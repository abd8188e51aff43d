// Asks the panel: the session, requests, streams.

const KEY = 'session';

/** An error of the panel or a daemon, with its code and what to do. */
export class Failed extends Error {
  /** @param {{code?: string, message?: string, retryable?: boolean, details?: Record<string, any>}} error */
  constructor(error) {
    super(error.message || 'the panel does not answer');
    this.code = error.code || 'UNREACHABLE';
    this.advice = error.details?.recommendedAction || '';
  }
}

/** @type {{session: string, readOnly: boolean, page: string} | null} */
let session = read();

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) || 'null');
  } catch {
    return null;
  }
}

export const isKnown = () => session !== null;
export const isReadOnly = () => session?.readOnly === true;

/** Takes the token out of the address, so that it stands in no history. @returns {string | null} */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get('t');
  if (token) history.replaceState(null, '', location.pathname);
  return token;
}

/** Exchanges a token or a code for a session. @param {{token?: string, code?: string}} given */
export async function enter(given) {
  session = await request('POST', '/api/session', given);
  sessionStorage.setItem(KEY, JSON.stringify(session));
  // A page that was open while the panel was replaced has the files of the old one.
  const own = /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name=page]'));
  if (own && own.content !== session?.page) {
    location.reload();
    await new Promise(() => {});
  }
}

export function leave() {
  session = null;
  sessionStorage.removeItem(KEY);
}

const SEGMENT = /^[A-Za-z0-9_-]+$/;

/**
 * Builds the path of a request below a path of the panel. All paths come from here: ids come from daemons, and one
 * with a slash or with dots would lead to another place.
 * @param {string} base @param {...string} segments
 */
export function under(base, ...segments) {
  if (segments.every((segment) => typeof segment === 'string' && SEGMENT.test(segment))) return [base, ...segments].join('/');
  throw new Failed({ code: 'INVALID_ARGUMENT', message: 'A daemon sent an id that cannot stand in an address. Nothing was asked.' });
}

/** @param {...string} segments */
export const api = (...segments) => under('/api', ...segments);

/** A path with a query; empty values are left out. @param {string} path @param {Record<string, string | null | undefined>} values */
export function asking(path, values) {
  const given = Object.entries(values).filter(([, value]) => value);
  return given.length ? `${path}?${new URLSearchParams(/** @type {[string, string][]} */ (given))}` : path;
}

/** @param {string} path */
export const get = (path) => request('GET', path);

/** Changes something. A second call is a second change, unless it has the idempotency key of the first. @param {string} path @param {unknown} [body] @param {string} [key] */
export const post = (path, body = {}, key = crypto.randomUUID()) => request('POST', path, body, key);

/** How long an answer may take (ms): the panel gives a daemon 60 s. */
const PATIENCE = 90_000;

/** @param {string} method @param {string} path @param {unknown} [body] @param {string} [key] */
async function request(method, path, body, key) {
  const headers = own();
  if (method === 'POST') {
    headers['Content-Type'] = 'application/json';
    headers['Idempotency-Key'] = key;
  }
  let answer;
  try {
    const sent = await fetch(path, { method, headers, body: body && JSON.stringify(body), credentials: 'omit', redirect: 'error', signal: AbortSignal.timeout(PATIENCE) });
    answer = await sent.json();
  } catch (error) {
    if (/** @type {any} */ (error)?.name === 'TimeoutError') {
      throw new Failed({ message: `The panel did not answer within ${PATIENCE / 1000} s. Check whether it was done before you try again.` });
    }
    throw new Failed({ message: 'The panel does not answer. Is `subagent panel` still running?' });
  }
  if (answer.ok) return answer.data;
  if (answer.error?.code === 'UNAUTHORIZED' && path !== '/api/session') {
    leave();
    dispatchEvent(new Event('signed-out'));
  }
  throw new Failed(answer.error || {});
}

/** @returns {Record<string, string>} */
function own() {
  return session ? { Authorization: `Bearer ${session.session}` } : {};
}

/** How long a stream may say nothing: the panel sends an empty line every 15 s. */
const SILENCE = 40_000;
const PAUSES = [250, 1000, 2000, 5000];

/**
 * Reads lines of JSON for as long as the signal lets it, and comes again after each end.
 * @param {() => string} path asked anew each time, with the cursor
 * @param {(line: any) => void} take
 * @param {(problem: Failed | null) => void} tell a lost connection, and that it is back; true ends it
 * @param {AbortSignal} signal
 */
export async function follow(path, take, tell, signal) {
  let tries = 0;
  while (!signal.aborted) {
    try {
      const over = await once(path(), (line) => {
        // A line that says that a daemon is down is no sign that the stream works again.
        if (!line.down) {
          if (tries || line.all) tell(null);
          tries = 0;
        }
        take(line);
      }, signal);
      if (over) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Failed && error.code === 'UNAUTHORIZED') return;
      tell(error instanceof Failed ? error : new Failed({ message: 'The connection to the panel was lost.' }));
    }
    await pause(PAUSES[Math.min(tries++, PAUSES.length - 1)], signal);
  }
}

/** @param {number} time @param {AbortSignal} signal */
function pause(time, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    signal.addEventListener('abort', () => resolve(clearTimeout(timer)), { once: true });
  });
}

/** One stream to its end; true if nothing will follow. @param {string} path @param {(line: any) => void} take @param {AbortSignal} signal */
async function once(path, take, signal) {
  const quiet = new AbortController();
  let timer = setTimeout(() => quiet.abort(), SILENCE);
  const answer = await fetch(path, { headers: own(), credentials: 'omit', redirect: 'error', signal: AbortSignal.any([signal, quiet.signal]) });
  if (!answer.ok || !answer.body) {
    clearTimeout(timer);
    const { error } = await answer.json().catch(() => ({}));
    if (error?.code === 'UNAUTHORIZED') {
      leave();
      dispatchEvent(new Event('signed-out'));
    }
    throw new Failed(error || {});
  }
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  let over = false;
  for (;;) {
    const { value, done } = await reader.read();
    clearTimeout(timer);
    if (done) break;
    timer = setTimeout(() => quiet.abort(), SILENCE);
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = lines.pop() || '';
    for (const line of lines) {
      if (!line) continue;
      const said = JSON.parse(line);
      over ||= said.ended === true;
      take(said);
    }
  }
  return over;
}

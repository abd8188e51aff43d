// Makes nodes. All text is placed as text: there is no way from a string to markup in this page.

/**
 * @typedef {Node | string | number | null | undefined | false | any[]} Child
 */

/**
 * An element with properties and children.
 * @param {string} tag with classes, as `button.primary`
 * @param {Record<string, any>} [props] `on*` are listeners, `aria-*`, `data-*` and `role` attributes, others properties
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key.includes('-') || key === 'role' || key === 'for') element.setAttribute(key, String(value));
    else /** @type {any} */ (element)[key] = value;
  }
  append(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
function append(element, children) {
  for (const child of /** @type {Child[]} */ (children.flat(Infinity))) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replaces all children.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Sets the text only if it is another one: what has not changed is not announced again.
 * @param {Element} element @param {string} text */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The elements that a rendered tree may have. */
const TAGS = new Set([
  'p', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'pre', 'code', 'em', 'strong', 'del', 'a', 'blockquote', 'hr', 'br', 'table',
  'thead', 'tr', 'td', 'span',
]);
const LINKS = ['http:', 'https:', 'mailto:'];

/**
 * The nodes of a tree that the panel has rendered.
 * @param {any[]} tree
 * @returns {Node[]}
 */
export function place(tree) {
  return (Array.isArray(tree) ? tree : []).map(node);
}

/** @param {any} tree @returns {Node} */
function node(tree) {
  if (typeof tree === 'string') return document.createTextNode(tree);
  const tag = TAGS.has(tree.t) ? tree.t : 'span';
  const element = document.createElement(tag);
  if (tag === 'a') link(element, tree.href);
  if (tag === 'ol' && Number.isSafeInteger(tree.start)) element.start = tree.start;
  if (typeof tree.k === 'string' && tree.k) {
    if (tag === 'pre') element.dataset.language = tree.k;
    else element.className = tree.k.split(' ').map((/** @type {string} */ word) => `ansi-${word}`).join(' ');
  }
  element.append(...place(tree.c));
  return element;
}

/** Gives a link its place, if it may lead there. @param {HTMLAnchorElement} element @param {unknown} href */
export function link(element, href) {
  let url;
  try {
    url = new URL(String(href));
  } catch {
    return;
  }
  if (!LINKS.includes(url.protocol)) return;
  element.href = url.href;
  element.title = url.href;
  element.target = '_blank';
  element.rel = 'noopener noreferrer nofollow';
}

/** Whether keys go into a field. @param {Event} event */
export function types(event) {
  const at = /** @type {HTMLElement} */ (event.composedPath()[0]);
  return at.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(at.tagName);
}

/** The element and its listeners go with the page. @param {string} tag @param {CustomElementConstructor} type */
export function define(tag, type) {
  if (!customElements.get(tag)) customElements.define(tag, type);
}

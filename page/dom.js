// dom.js: makes elements. Text always becomes a text node, so names from a server or a client can never be markup. (The
// page's Content-Security-Policy requires trusted types and defines none, so innerHTML would throw.)
"use strict";

const byId = id => document.getElementById(id);

/** Makes an element with properties and children. A child that is a string becomes text. */
function make(tag, properties = {}, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(properties)) {
		if (name in element)
			element[name] = value;
		else
			element.setAttribute(name, value);
	}
	element.append(...children);
	return element;
}

/** Sets text only if it changed: an unchanged node costs no layout, and keeps the reader's selection. */
function setText(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

// Characters that are invisible or change how the rest is read: controls, line separators, direction marks.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** An untrusted name, with invisible characters written out. */
function plain(text) {
	return String(text).replace(UNSEEN, character => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** Sets the children of `parent`, in this order, and moves only nodes that are not in place. */
function setChildren(parent, children) {
	let at = parent.firstChild;
	for (const child of children) {
		if (child === at)
			at = at.nextSibling;
		else
			parent.insertBefore(child, at);
	}
	while (at) {
		const next = at.nextSibling;
		at.remove();
		at = next;
	}
}

'use strict';
// Finds the addon: one that was built here (build/), or the prebuilt one of this system.

const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const here = `${process.platform}-${process.arch}`;

function load() {
  const tried = [
    process.env.QUIPU_NODE_ADDON,
    path.join(root, 'build', 'quipu_node.node'),
    path.join(root, 'prebuilds', here, 'quipu_node.node'),
  ].filter(Boolean);
  const found = tried.find((file) => fs.existsSync(file));
  if (found === undefined) {
    throw new Error(
      `quipu-store has no addon for ${here}: it comes with linux-x64 and linux-arm64 (glibc); ` +
        'build another from the repository with "node build.js"',
    );
  }
  return require(found);
}

module.exports = load();

'use strict';
// Builds the addon. Of the repository, not of the package: nothing runs when the package is installed.
//
//     node build.js            build/quipu_node.node, for this machine
//     node build.js --package  prebuilds/ for linux-x64 and linux-arm64, the tarball, and a trial of it:
//                              installed without scripts in an empty folder, it stores and reads

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const here = __dirname;
const root = path.join(here, '..', '..');
const work = path.join(root, 'build', 'node');
const arm = { compiler: 'aarch64-linux-gnu-gcc', sqlite: '/usr/lib/aarch64-linux-gnu/libsqlite3.a' };

const run = (command, args, options) => execFileSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'], ...options });

/** The addon of a processor; the headers are those of any Node, since Node-API has one ABI. */
function addon(arch, extra) {
  const headers = execFileSync(path.join(root, 'tools', 'node.sh'), [work, 'headers'], { encoding: 'utf8' }).trim();
  const folder = path.join(work, arch);
  run('cmake', ['-G', 'Ninja', '-S', here, '-B', folder, '-DCMAKE_BUILD_TYPE=Release', `-DQUIPU_NODE_HEADERS=${headers}`, ...extra]);
  run('cmake', ['--build', folder, '--target', 'quipu_node']);
  return path.join(folder, 'quipu_node.node');
}

/** The headers of libpq and libcurl, apart from those of this machine's C library: both libraries are
 * loaded when a store needs them, and these headers are the same for every processor. */
function headersOfLibraries() {
  const folder = path.join(work, 'include');
  const curl = ['', 'x86_64-linux-gnu', 'aarch64-linux-gnu'].map((one) => path.join('/usr/include', one, 'curl'));
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(path.join(folder, 'libpq'), { recursive: true });
  for (const name of ['libpq-fe.h', 'postgres_ext.h', 'pg_config_ext.h']) {
    fs.copyFileSync(path.join('/usr/include/postgresql', name), path.join(folder, 'libpq', name));
  }
  fs.cpSync(curl.find((one) => fs.existsSync(one)), path.join(folder, 'libcurl', 'curl'), { recursive: true });
  return folder;
}

function install(file, folder, strip) {
  fs.mkdirSync(folder, { recursive: true });
  const to = path.join(folder, 'quipu_node.node');
  fs.copyFileSync(file, to);
  if (strip !== undefined) {
    run(strip, ['--strip-unneeded', to]);
  }
}

/** Installs the tarball without scripts in an empty folder, and uses it there. */
function tryOut(tarball) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-'));
  const program = `const { open } = require('quipu-store');
    open('a.db').then(async (store) => {
      await store.append('talk', 'it works', { create: true });
      console.log((await store.get('talk')).messages[0].content);
      await store.close();
    });`;
  fs.writeFileSync(path.join(folder, 'package.json'), '{"private": true}');
  run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts', tarball], { cwd: folder });
  const said = execFileSync(process.execPath, ['-e', program], { cwd: folder, encoding: 'utf8' });
  fs.rmSync(folder, { recursive: true });
  if (said !== 'it works\n') {
    throw new Error(`the package that was installed says ${JSON.stringify(said)}`);
  }
}

function makePackage() {
  install(addon('x64', []), path.join(here, 'prebuilds', 'linux-x64'), 'strip');
  const include = headersOfLibraries();
  const cross = [ // without a system's name, with which CMake would look for libraries that are only loaded
    `-DCMAKE_C_COMPILER=${arm.compiler}`, `-Dquipu_sqlite_archive=${arm.sqlite}`, '-DSQLite3_INCLUDE_DIR=/usr/include',
    '-DCURL_NO_CURL_CMAKE=ON', `-DCURL_INCLUDE_DIR=${include}/libcurl`, '-DCURL_LIBRARY=loaded-when-it-is-used',
    `-DQUIPU_LIBPQ_INCLUDE=${include}/libpq`, '-DQUIPU_LIBPQ=loaded-when-it-is-used',
  ];
  install(addon('arm64', cross), path.join(here, 'prebuilds', 'linux-arm64'), 'aarch64-linux-gnu-strip');
  const stage = path.join(work, 'package');
  fs.rmSync(stage, { recursive: true, force: true });
  fs.mkdirSync(stage, { recursive: true });
  const { files, name, version } = require('./package.json');
  for (const file of ['package.json', ...files, 'README.md']) {
    const own = path.join(here, file);
    fs.cpSync(fs.existsSync(own) ? own : path.join(root, file), path.join(stage, file), { recursive: true });
  }
  run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', work], { cwd: stage });
  const tarball = path.join(work, `${name}-${version}.tgz`);
  tryOut(tarball);
  console.log(`${path.relative(process.cwd(), tarball)}: ${fs.statSync(tarball).size} bytes`);
}

if (process.argv[2] === '--package') {
  makePackage();
} else {
  install(addon(process.arch, []), path.join(here, 'build'));
}

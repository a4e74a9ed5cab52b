'use strict';
// Builds the addon. Of the repository, not of the package: nothing runs when the package is installed.
//
//     node build.js            build/quipu_node.node, for this machine
//     node build.js --package  prebuilds/ for linux-x64 and linux-arm64 by packaging/prebuilds.py, what
//                              they need, the tarball, and a trial of it: installed without scripts in an
//                              empty folder, it stores and reads, on arm64 under qemu

const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const here = __dirname;
const root = path.join(here, '..', '..');
const work = path.join(root, 'build', 'node');
const MACHINES = { x64: 'X86-64', arm64: 'AArch64' }; // as readelf names them
const LIBRARIES = /^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux[-\w]*\.so\.\d)$/;
const ENTRIES = ['napi_register_module_v1', 'node_api_module_get_api_version_v1']; // of native/exports.map
const SKIP = 77;

const run = (command, args, options) => execFileSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'], ...options });

/** The addon in a folder of the build; the headers are those of any Node, since Node-API has one ABI. */
function addon(name, extra, env) {
  const headers = execFileSync(path.join(root, 'tools', 'node.sh'), [work, 'headers'], { encoding: 'utf8' }).trim();
  const folder = path.join(work, name);
  const options = { env: { ...process.env, ...env } };
  run('cmake', ['-G', 'Ninja', '-S', here, '-B', folder, '-DCMAKE_BUILD_TYPE=Release', `-DQUIPU_NODE_HEADERS=${headers}`, ...extra], options);
  run('cmake', ['--build', folder, '--target', 'quipu_node'], options);
  return path.join(folder, 'quipu_node.node');
}

function install(file, folder) {
  fs.mkdirSync(folder, { recursive: true });
  const to = path.join(folder, 'quipu_node.node');
  fs.copyFileSync(file, to);
  return to;
}

/** What packaging/prebuilds.py says, or null when it cannot run here. */
function prepared(what) {
  const { status, stdout } = spawnSync('python3', [path.join(root, 'packaging', 'prebuilds.py'), what], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  if (status === SKIP) {
    console.log(stdout.trim());
    return null;
  }
  return JSON.parse(stdout);
}

/** Checks what an addon needs of the machine that it comes to: its processor, libraries that every glibc
 * has, no symbol of a newer one, else only Node-API's; and it shows Node's entries alone. */
function check(file, arch, glibc) {
  const read = (option) => execFileSync('readelf', ['-W', option, file], { encoding: 'utf8' });
  const newer = (version) => version.split('.').map(Number).some((part, i, all) => i === 1 && (all[0] > 2 || part > Number(glibc.split('.')[1])));
  const symbols = [...read('--dyn-syms').matchAll(/(GLOBAL|WEAK)\s+DEFAULT\s+(\S+)\s+([^\s@]+)(?:@+(\S+))?/g)]
    .map(([, bind, section, name, version]) => ({ name, version, weak: bind === 'WEAK', ours: section !== 'UND' }));
  const wrong = [
    ...(read('-h').includes(MACHINES[arch]) ? [] : [`it is not for ${arch}`]),
    ...[...read('-d').matchAll(/NEEDED.*\[(.*)\]/g)].map((found) => found[1]).filter((one) => !LIBRARIES.test(one)),
    ...symbols.filter((one) => one.version?.startsWith('GLIBC_') && newer(one.version.slice(6))).map((one) => `${one.name} of ${one.version}`),
    ...symbols.filter((one) => !one.ours && !one.weak && one.version === undefined && !one.name.startsWith('napi_')).map((one) => one.name),
    ...symbols.filter((one) => one.ours && !ENTRIES.includes(one.name)).map((one) => `shows ${one.name}`),
    ...(symbols.some((one) => one.ours && one.name === ENTRIES[0]) ? [] : ['it has no entry for Node']),
  ];
  if (wrong.length > 0) {
    throw new Error(`the addon for ${arch} needs more than glibc ${glibc} and Node-API: ${wrong.join(', ')}`);
  }
  console.log(`[       OK ] the addon for ${arch} needs glibc ${glibc} and Node-API`);
}

/** Installs the tarball without scripts in an empty folder, and uses it there, also on the other processor. */
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
  const other = prepared('try');
  const tries = [['this processor', [process.execPath]], ...(other === null ? [] : [['arm64', [other.emulator, '-L', other.root, other.node]]])];
  for (const [where, [command, ...words]] of tries) {
    fs.rmSync(path.join(folder, 'a.db'), { force: true });
    const said = execFileSync(command, [...words, '-e', program], { cwd: folder, encoding: 'utf8' });
    if (said !== 'it works\n') {
      throw new Error(`the package that was installed says on ${where} ${JSON.stringify(said)}`);
    }
    console.log(`[       OK ] the package stores and reads on ${where}`);
  }
  fs.rmSync(folder, { recursive: true });
}

function makePackage() {
  const tools = prepared('compile');
  if (tools === null) {
    process.exit(SKIP);
  }
  // Without a system's name, with which CMake would look for libraries that are only loaded.
  const env = { ZIG_GLOBAL_CACHE_DIR: tools.cache, ZIG_LOCAL_CACHE_DIR: tools.cache };
  for (const [arch, definitions] of Object.entries(tools.arches)) {
    const built = addon(`prebuilt-${arch}`, Object.entries(definitions).map(([name, value]) => `-D${name}=${value}`), env);
    check(install(built, path.join(here, 'prebuilds', `linux-${arch}`)), arch, tools.glibc);
  }
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

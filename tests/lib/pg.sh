#!/bin/bash
# pg.sh start|stop|halt|resume|freeze|thaw FOLDER: a PostgreSQL server for the tests, on a unix
# socket in a temporary folder, without durability. FOLDER/uri names it. halt ends it as a crash
# would, resume starts it again; freeze stops its processes where they are, thaw lets them go on.
# As root the server runs as another user, because it refuses root. QUIPU_PG_CONF may hold more
# lines of its configuration, QUIPU_PG_INITDB an option of initdb. Exits 77 where no server is
# installed.
set -eu

verb=${1:?start or stop}
folder=${2:?folder}

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
bin=${bin:+$bin/} # Debian keeps the server's programs out of the path
if ! command -v "${bin}initdb" >/dev/null; then
    echo "SKIP: no PostgreSQL server is installed (postgresql-15)"
    exit 77
fi

as_user() {
    if [ "$(id -u)" = 0 ]; then
        user=$(id -un postgres 2>/dev/null || echo nobody)
        (cd / && runuser -u "$user" -- "$@")
    else
        "$@"
    fi
}

# Send a signal to the server, first to the process that starts the others.
signal() {
    first=$(head -n 1 "$(cat "$folder/data")/db/postmaster.pid")
    kill "-$1" "$first"
    for stat in /proc/[0-9]*/stat; do
        if read -r pid _ _ parent _ 2>/dev/null <"$stat" && [ "$parent" = "$first" ]; then
            kill "-$1" "$pid"
        fi
    done
}

stop() {
    if [ -f "$folder/data" ]; then
        data=$(cat "$folder/data")
        as_user "${bin}pg_ctl" -D "$data/db" -m immediate stop >/dev/null 2>&1 || true
        rm -rf "$data" "$folder"
    fi
}

case $verb in
stop) stop ;;
halt) as_user "${bin}pg_ctl" -D "$(cat "$folder/data")/db" -m immediate stop >/dev/null ;;
resume)
    data=$(cat "$folder/data")
    as_user "${bin}pg_ctl" -D "$data/db" -l "$data/log" -w start >/dev/null
    ;;
freeze) signal STOP ;;
thaw) signal CONT ;;
start)
    stop # what an interrupted run left behind
    mkdir -p "$folder"
    data=$(mktemp -d "/tmp/quipu-pg.XXXXXX") # short: a socket's path has about a hundred bytes
    echo "$data" >"$folder/data"
    if [ "$(id -u)" = 0 ]; then
        chown "$(id -un postgres 2>/dev/null || echo nobody)" "$data"
    fi
    as_user "${bin}initdb" -D "$data/db" -U quipu -A trust -E UTF8 --locale=C --no-sync \
        ${QUIPU_PG_INITDB:+"$QUIPU_PG_INITDB"} >/dev/null
    cat >"$data/conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$data'
max_connections = 300
fsync = off
full_page_writes = off
shared_buffers = 64MB
max_wal_size = 256MB
autovacuum = off
${QUIPU_PG_CONF:-}
EOF
    cat "$data/conf" >>"$data/db/postgresql.conf"
    as_user "${bin}pg_ctl" -D "$data/db" -l "$data/log" -w start >/dev/null
    echo "postgresql:///?host=$data&user=quipu&dbname=postgres" >"$folder/uri"
    ;;
*)
    echo "usage: pg.sh start|stop|halt|resume|freeze|thaw FOLDER" >&2
    exit 2
    ;;
esac

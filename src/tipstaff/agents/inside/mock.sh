# Acts like an agent: takes a task, leaves a note, and says what it did.
if [ "$#" -gt 0 ]; then
    task=$1
else
    task=$(cat /tmp/.tipstaff-prompt)
    task=${task%.}
fi
printf 'mock agent received task: %s\n' "$task"
secret=absent
if [ -n "${MOCK_SECRET+set}" ]; then secret=present; fi
printf '## task\n%s\n\nsecret:%s\n' "$task" "$secret" >>MOCK_AGENT.md || exit 1

probe() {
    proxy=${http_proxy#http://}
    [ -n "$proxy" ] || return 1
    proxy=${proxy%/}
    host=${MOCK_PROBE_HOST:-denied.example.com}
    { exec 3<>"/dev/tcp/${proxy%:*}/${proxy##*:}"; } 2>/dev/null || return 1
    printf 'GET http://%s/probe HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$host" "$host" >&3
    read -r -t 30 _ status _ <&3 || return 1
    exec 3>&-
    printf 'network probe status: %s\n' "${status%$'\r'}"
}

case $task in
    *network*) probe || printf 'network probe failed to reach proxy\n' ;;
esac
case $task in
    *fail*)
        printf 'mock agent failing as instructed\n' >&2
        exit 1
        ;;
esac
printf 'mock agent done\n'

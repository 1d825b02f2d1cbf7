# Sourced by agents that tell how far they are: status.json keeps all its keys, and is replaced as a whole.

tell() {  # tell STATE STEP DONE OF
    _change "s|\"state\": \"[a-z]*\"|\"state\": \"$1\"|
        s|\"$(_time_of "$1")\": null|\"$(_time_of "$1")\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"|
        s|\"current_step\": \"[^\"]*\"|\"current_step\": \"$2\"|
        s|\"steps_completed\": [0-9]*|\"steps_completed\": $3|
        s|\"total_steps\": [0-9]*|\"total_steps\": $4|"
    sleep 0.4  # for people who watch
}

give_up() {  # give_up TYPE MESSAGE DETAILS RECOVERABLE
    _change "s|\"state\": \"[a-z]*\"|\"state\": \"failed\"|
        s|\"completed\": null|\"completed\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"|
        s|\"error\": null|\"error\": {\"type\": \"$1\", \"message\": \"$2\", \"details\": \"$3\", \"recoverable\": $4}|"
    exit 0
}

_time_of() {
    if [ "$1" = running ]; then echo started; else echo completed; fi
}

_change() {
    sed "$1" status.json > workspace/status.json
    mv workspace/status.json status.json
}

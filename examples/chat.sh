#!/usr/bin/env bash
# Asks one question with curl and prints the answer as it is written:
#
#   examples/chat.sh "What is 17 * 23?"
#
# The events come as lines of JSON, and jq picks out the words. If the turn is refused or fails, it
# prints the reason and exits with status 1.
set -euo pipefail

jq --null-input --arg prompt "${1:?give a question}" '{$prompt}' |
  curl --silent --show-error --no-buffer \
    "${TETHER_URL:-http://127.0.0.1:8080}/api/v1/chat/stream" \
    --header "Authorization: Bearer ${TETHER_API_KEY:-none}" \
    --header 'Content-Type: application/json' \
    --header 'Accept: application/x-ndjson' \
    --data @- |
  jq --unbuffered --join-output '
    if .type == "text_delta" then .data.text
    elif .type == "clarification_needed" then .data.question
    elif .type == "turn_failed" then "\nfailed: \(.data.message)\n" | halt_error(1)
    elif .error then "refused: \(.error.message)\n" | halt_error(1)
    else empty end'
echo

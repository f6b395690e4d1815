#!/usr/bin/env bash
# Asks a question and prints the answer as it is written: examples/chat.sh "What is 17 * 23?"
# The events come as lines of JSON; jq picks the words out of them.
set -euo pipefail

jq --null-input --arg prompt "${1:?which question?}" '{$prompt}' |
  curl --silent --show-error --fail-with-body --no-buffer \
    "${TETHER_URL:-http://127.0.0.1:8080}/api/v1/chat/stream" \
    --header "Authorization: Bearer ${TETHER_API_KEY:-none}" \
    --header 'Content-Type: application/json' \
    --header 'Accept: application/x-ndjson' \
    --data @- |
  jq --unbuffered --join-output 'select(.type == "text_delta").data.text'
echo

#!/usr/bin/env bash
# Starts the broker that peers find each other by: ./broker.sh [ADDRESS:PORT]
cd "$(dirname "$0")" && exec python3 -m moolib.broker "$@"

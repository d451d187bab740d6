#!/usr/bin/env bash
# The whole of distrank on one machine, from nothing: makes .venv, simulates a crowd of experts, average people, spammers
# and liars, aggregates it on a local Ray that it starts and stops, and compares with the simulated truth.
#   bash scripts/demo.sh [FOLDER]     (default demo/; made anew)
source "$(dirname "$0")/setup.sh"
folder="${1:-demo}"
[ ! -e "$folder" ] || [ -f "$folder/.demo" ] || { echo "$folder exists and is not a demo; name another folder"; exit 2; }
rm -rf "$folder" && mkdir -p "$folder" && touch "$folder/.demo"
headline() { printf '\n== %s\n\n' "$*"; }

headline "A crowd: 400 queries, 120 annotators of four kinds"
distrank simulate crowd-bt --out "$folder/crowd" --queries 400 --items 20 --annotators 120 --pairs 60 \
  --annotators-per-pair 5 --quality mixture --law model --seed 7
preferences="$folder/crowd/preferences.parquet"
gold="$folder/crowd/gold.csv"
distrank validate "$preferences"

headline "The main job, crowd-bt, on a Ray of its own"
distrank aggregate "$preferences" --method crowd-bt --engine ray --out "$folder/ray"

headline "The same on the local engine: the same bytes?"
distrank aggregate "$preferences" --method crowd-bt --engine local --out "$folder/local" --quiet 2> /dev/null
for file in rankings annotators queries; do
  cmp "$folder/ray/latest/$file.parquet" "$folder/local/latest/$file.parquet" && echo "$file.parquet: identical"
done

headline "How it converged"
distrank show "$folder/ray" --table convergence

headline "The best items of one query"
distrank show "$folder/ray" --query q000 --top 5

headline "Accuracy against the simulated truth, beside plain Bradley-Terry and Borda"
distrank aggregate "$preferences" --method bradley-terry --engine local --out "$folder/bradley-terry" --quiet
distrank aggregate "$preferences" --method borda --engine local --out "$folder/borda" --quiet
distrank evaluate "$folder/ray" "$folder/bradley-terry" "$folder/borda" --gold "$gold" --metrics accuracy,kendall

headline "Where the result lies"
ls -l "$folder/ray/latest/"
echo "read it with:  distrank show $folder/ray"

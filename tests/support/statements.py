"""Statements made to write, to leave the database, or to exhaust time and memory: what each would do -> its text."""

from __future__ import annotations

_ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n)"
_TEXT = f"{_ENDLESS}, long(t) as (select group_concat('a', '') from (select x from n limit 200000))"
_DOUBLED = ", ".join(
    f"c{number}(x) as (select x from c{number - 1} union all select x from c{number - 1})" for number in range(1, 60)
)

REFUSED = {
    "insert": "insert into steps (workload) values (1)",
    "update": "update steps set steps = 0",
    "delete": "delete from steps",
    "replace": "replace into steps (workload) values (1)",
    "delete behind a CTE": "with x as (select 1) delete from steps",
    "create table": "create table t(a)",
    "create temporary table": "create temp table t as select * from steps",
    "create view": "create view v as select * from steps",
    "create trigger": "create trigger t after insert on steps begin select 1; end",
    "create virtual table": "create virtual table t using fts5(a)",
    "drop": "drop table steps",
    "alter": "alter table steps rename to s",
    "create index": "create index i on steps(steps)",
    "vacuum into a file": "vacuum into '{file}'",
    "attach a file": "attach '{file}' as other",
    "attach memory": "attach ':memory:' as other",
    "detach": "detach main",
    "begin": "begin",
    "savepoint": "savepoint s",
    "pragma that writes a header": "pragma user_version = 7",
    "pragma that lifts a limit": "pragma hard_heap_limit = 0",
    "pragma that allows writing": "pragma query_only = off",
    "pragma as a function": "select * from pragma_database_list",
    "schema": "select sql from sqlite_schema",
    "pages": "select * from dbstat",
    "pages of a table": "select pageno from dbstat('steps')",
    "statements": "select sql from sqlite_stmt",
    "extension": "select load_extension('{file}')",
    "tokenizer": "select fts3_tokenizer('simple', x'0000000000000000')",
    "read a file": "select readfile('/etc/passwd')",
    "write a file": "select writefile('{file}', 'x')",
    "second statement": "select 1; drop table steps",
    "second statement behind a comment": "select 1 /* */; -- \n drop table steps",
    "explain": "explain select 1",
    "endless recursion": f"{_ENDLESS} select count(*) from n",
    "endless rows": f"{_ENDLESS} select x from n",
    "endless distinct": f"{_ENDLESS} select distinct x % 100000007 from n",
    "endless set": "with recursive n(x) as (select 1 union select x + 1 from n) select max(x) from n",
    "endless sort": f"{_ENDLESS} select x, hex(x) from n order by 2",
    "endless group": f"{_ENDLESS} select count(*) from (select x from n group by x)",
    "endless concatenation": f"{_ENDLESS} select length(group_concat(x)) from n",
    "endless window": f"{_ENDLESS} select sum(x) over (order by x desc) from n",
    "huge blob": "select zeroblob(2000000000)",
    "huge random blob": "select randomblob(2000000000)",
    "huge replacement": f"{_TEXT} select length(replace(replace(t, 'a', t), 'a', t)) from long",
    "rows of huge texts": f"{_TEXT} select {', '.join(['t'] * 60)} from long, n",
    "distinct huge texts": f"{_TEXT} select count(*) from (select distinct t || x from long, n)",
    "slow search": f"{_TEXT} select sum(instr(t, substr(t, 1, 99999) || 'b')) from long, n",
    "exponential CTEs": f"with c0(x) as (select 1), {_DOUBLED} select count(*) from c59",
    "product of everything": f"select count(*) from {', '.join(f'operations as o{number}' for number in range(20))}",
    "deep expression": f"select {'(' * 5000}1{')' * 5000}",
    "many operators": f"select {'+'.join(['1'] * 5000)}",
    "many columns": f"select {', '.join(['1'] * 5000)}",
    "many parts": " union all ".join(["select 1"] * 5000),
    "long statement": f"select '{'x' * 100_000}'",
    "parameters": "select ?, :a, $b",
}
"""`{file}` is to be replaced by a path that can be written."""

ENDED = {
    "huge padding": "select length(printf('%2000000000d', 1))",
    "long LIKE": f"{_TEXT} select t like '{'%a' * 60}%b' from long",
    "long GLOB": f"{_TEXT} select t glob '{'*a' * 60}*b' from long",
    "many rows of nothing": "select count(*) from sqlite_schema",
}
"""They look as bad and are not: each ends at once, and shows nothing."""

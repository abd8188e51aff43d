"""Serves a Deep Agent over ACP on stdin and stdout. It asks before it runs a command or changes a file.

    deepagents_stdio.py MODEL SESSIONS

MODEL is one of a server that speaks OpenAI's chat completions; OPENAI_BASE_URL and OPENAI_API_KEY say which. SESSIONS is
the file that its sessions are stored in.
"""

import asyncio
import sys

from acp import run_agent
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from deepagents_acp.server import AgentServerACP
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

ASKS_BEFORE = ("execute", "write_file", "edit_file")


async def main(model, file):
    async with AsyncSqliteSaver.from_conn_string(file) as sessions:

        def build(session):
            return create_deep_agent(
                model=ChatOpenAI(model=model),
                # Paths are those of the machine, as in the questions to the user.
                backend=LocalShellBackend(root_dir=session.cwd, virtual_mode=False, inherit_env=True),
                interrupt_on=dict.fromkeys(ASKS_BEFORE, True),
                checkpointer=sessions,
            )

        await run_agent(AgentServerACP(agent=build, load_sessions=True))


asyncio.run(main(*sys.argv[1:]))

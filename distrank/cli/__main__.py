"""`python -m distrank.cli`: the command line without the installed script."""

import sys

from distrank.cli import main

sys.exit(main())

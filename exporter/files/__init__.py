"""Files that another user may have made: opened without following links or waiting, read within bounds, replaced as a whole."""

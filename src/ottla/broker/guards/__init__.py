"""What stands before the handlers when there is an authorizer: table.py says what each API asks."""

! ranks: 1 2
! Hints of a file, at its opening and later.
      PROGRAM HINTS
      USE MPI_F08
      IMPLICIT NONE
      TYPE(MPI_INFO) INFO, USED
      TYPE(MPI_FILE) FH
      INTEGER ME, N
      LOGICAL FLAG
      CHARACTER(LEN=20) TEXT
      CALL MPI_INIT()
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME)
      CALL MPI_INFO_CREATE(INFO)
      CALL MPI_INFO_SET(INFO, 'access_style', 'write_once,sequential')
      CALL MPI_INFO_SET(INFO, 'no_such_hint', '17')
      CALL MPI_FILE_OPEN(MPI_COMM_WORLD, 'hints.dat', MPI_MODE_CREATE +
     &   MPI_MODE_WRONLY + MPI_MODE_DELETE_ON_CLOSE, INFO, FH)
      CALL MPI_FILE_SET_INFO(FH, INFO)
      CALL MPI_INFO_FREE(INFO)
      CALL MPI_FILE_GET_INFO(FH, USED)
      IF (USED .EQ. MPI_INFO_NULL) ERROR STOP 'no hints'
      CALL MPI_INFO_GET_NKEYS(USED, N)
      IF (N .LT. 0) ERROR STOP 'the number of hints'
C     A hint without a meaning is not kept.
      N = 20
      CALL MPI_INFO_GET_STRING(USED, 'no_such_hint', N, TEXT, FLAG)
      IF (FLAG) ERROR STOP 'a hint without a meaning'
      CALL MPI_INFO_FREE(USED)
      CALL MPI_FILE_CLOSE(FH)
      CALL MPI_FINALIZE()
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
